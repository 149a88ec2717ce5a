import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createClient } from '../../../src/client/index.ts';
import { startService } from '../../../src/service/index.ts';
import { baseModel, door, ScriptedEngine } from '../../support/scripted-engine.ts';
import { groups, type Operation, type Subject } from './operations.ts';

/** A service for many operations, each in its own project. Its database can be read once it is closed. */
export class World {
  readonly engine: ScriptedEngine;
  readonly service: Awaited<ReturnType<typeof startService>>;
  readonly #folder: string;
  readonly #direct;
  #subjects = 0;

  private constructor(folder: string, engine: ScriptedEngine, service: World['service']) {
    this.#folder = folder;
    this.engine = engine;
    this.service = service;
    this.#direct = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  }

  static async start(engine = new ScriptedEngine()): Promise<World> {
    const folder = await mkdtemp(join(tmpdir(), 'martingale-network-'));
    return new World(folder, engine, await startService({ engine, dataFolder: folder, apiKey: 'key' }));
  }

  /** Uses an engine that starts no training, so that jobs do not change until they are cancelled. */
  static startHeld(): Promise<World> {
    const engine = new ScriptedEngine();
    engine.hold = (place) => (place === 'train' ? door().wait() : Promise.resolve());
    return World.start(engine);
  }

  /** Creates what an operation needs, without the proxy. */
  async subject({ needs }: Operation): Promise<Subject> {
    const seed = ++this.#subjects;
    const project = `project-${seed}`;
    const subject = { project, seed, modelId: '', jobId: '' };
    if (!needs) return subject;
    const request = { project, name: 'agent', base_model: baseModel.id };
    subject.modelId = (await this.#direct.models.create(request)).id;
    if (needs === 'model') return subject;
    const job = { model_id: subject.modelId, trajectory_groups: groups };
    subject.jobId = (await this.#direct.trainingJobs.create(job)).id;
    if (needs === 'checkpoint') for await (const _ of this.#direct.trainingJobs.follow(subject.jobId));
    return subject;
  }

  /** Number of samples that the engine made with a seed. */
  samples(seed: number): number {
    return this.engine.requests.filter((request) => request.seed === seed).length;
  }

  async closeService(): Promise<void> {
    await this.#direct.close();
    await this.service.close();
  }

  /** How often each operation took effect, from the database of the closed service. */
  effects(trials: readonly { operation: Operation; subject: Subject }[]): number[] {
    const database = new DatabaseSync(join(this.#folder, 'martingale.sqlite'), { readOnly: true });
    try {
      return trials.map(({ operation: { effect = '' }, subject: { project } }) =>
        Number(database.prepare(effect).get(project)?.n),
      );
    } finally {
      database.close();
    }
  }

  async close(): Promise<void> {
    await this.closeService();
    await rm(this.#folder, { recursive: true, force: true });
  }
}
