import type { SqliteDatabase } from './sqlite-database.ts';
import { clearDeletedModel, clearDeletedModels, deleteModel } from './sqlite-deleted-models.ts';
import { readPage } from './sqlite-page.ts';
import { integer, toCheckpoint, toModel } from './sqlite-rows.ts';
import { checkpointsOf, insertCheckpoint, readOne } from './sqlite-statements.ts';
import type { CheckpointRecord, ModelRecord, ModelStore, PageRequest, StoredPage } from './store.ts';

/** Models and their checkpoints. */
export function sqliteModels(database: SqliteDatabase): ModelStore {
  return {
    async insertModel(model: ModelRecord, checkpoint: CheckpointRecord): Promise<boolean> {
      return database.transaction(() => {
        clearDeletedModel(database, model.id);
        const inserted = database.run(
          `INSERT INTO models
             (id, entity, project, name, base_model, created_at, last_step, forked_from_model, forked_from_step)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
          ...[model.id, model.entity, model.project, model.name, model.baseModel],
          ...[model.createdAt, model.lastStep],
          ...[model.forkedFrom?.modelId ?? null, model.forkedFrom?.step ?? null],
        );
        if (inserted === 0) return false;
        insertCheckpoint(database, checkpoint);
        return true;
      });
    },

    async model(id: string): Promise<ModelRecord | undefined> {
      return readOne(database, toModel, 'SELECT * FROM models WHERE id = ?', id);
    },

    async modelNamed(entity: string, project: string, name: string): Promise<ModelRecord | undefined> {
      return readOne(
        database,
        toModel,
        'SELECT * FROM models WHERE entity = ? AND project = ? AND name = ?',
        ...[entity, project, name],
      );
    },

    async models(page: PageRequest, entity: string | null): Promise<StoredPage<ModelRecord>> {
      const tenant = entity === null ? undefined : ({ column: 'entity', id: entity } as const);
      return readPage(database, toModel, { table: 'models', order: 'sequence', tenant }, page);
    },

    async *everyModel(entity: string | null): AsyncGenerator<ModelRecord[]> {
      const owned = entity === null ? '' : 'AND entity = ?';
      for (let after = 0; ; ) {
        const rows = database.all(
          `SELECT * FROM models WHERE sequence > ? ${owned} ORDER BY sequence LIMIT 100`,
          ...[after, ...(entity === null ? [] : [entity])],
        );
        const last = rows.at(-1);
        if (!last) return;
        after = integer(last, 'sequence');
        yield rows.map(toModel);
      }
    },

    async deleteModel(id: string): Promise<CheckpointRecord[] | null> {
      return deleteModel(database, id);
    },

    async clearDeletedModels(): Promise<void> {
      await clearDeletedModels(database);
    },

    async checkpoints(modelId: string, page: PageRequest): Promise<StoredPage<CheckpointRecord>> {
      return readPage(
        database,
        toCheckpoint,
        { table: 'checkpoints', order: 'step', tenant: { column: 'model_id', id: modelId } },
        page,
      );
    },

    async allCheckpoints(modelId: string): Promise<CheckpointRecord[]> {
      return checkpointsOf(database, modelId);
    },

    async checkpoint(modelId: string, step: number): Promise<CheckpointRecord | undefined> {
      return readOne(
        database,
        toCheckpoint,
        'SELECT * FROM checkpoints WHERE model_id = ? AND step = ?',
        modelId,
        step,
      );
    },

    async newestCheckpoint(modelId: string): Promise<CheckpointRecord | undefined> {
      return readOne(
        database,
        toCheckpoint,
        'SELECT * FROM checkpoints WHERE model_id = ? ORDER BY step DESC LIMIT 1',
        modelId,
      );
    },

    async deleteCheckpoints(modelId: string, steps: number[]): Promise<CheckpointRecord[] | null> {
      return database.transaction(() => {
        const checkpoints = checkpointsOf(database, modelId);
        const going = checkpoints.filter(({ step }) => steps.includes(step));
        if (going.length === checkpoints.length) return null;
        for (const { id } of going) database.run('DELETE FROM checkpoints WHERE id = ?', id);
        return going;
      });
    },
  };
}
