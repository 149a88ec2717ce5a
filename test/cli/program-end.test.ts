import { writeFile } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it, type MockInstance, onTestFinished, vi } from 'vitest';
import { describeFailure, type Interrupt, listenForInterrupt } from '../../src/cli/program-end.ts';

it.runIf(process.platform === 'linux')(
  'a full disk has a remedy and no stack, whether the system or SQLite reports it',
  async () => {
    const remedy = 'Make room on that disk, or write to another one.';
    // A device that is always full.
    const write = await writeFile('/dev/full', 'text').catch((error: unknown) => error);
    expect(describeFailure(write)).toBe(`error: ENOSPC: no space left on device, write. ${remedy}`);
    const database = new DatabaseSync(':memory:');
    onTestFinished(() => database.close());
    database.exec('PRAGMA max_page_count = 1');
    try {
      database.exec('CREATE TABLE a (b); CREATE TABLE c (d)');
      expect.unreachable();
    } catch (error) {
      expect(describeFailure(error)).toBe(`error: database or disk is full. ${remedy}`);
    }
  },
);

describe('an interrupt', () => {
  let interrupt: Interrupt;
  const [onFirst, onEarlyExit] = [vi.fn(), vi.fn()];
  let exit: MockInstance<typeof process.exit>;
  beforeEach(() => {
    exit = vi.spyOn(process, 'exit').mockImplementation(() => undefined as never);
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
    vi.clearAllMocks();
    // The signals of these tests are for nobody else in this process.
    process.removeAllListeners('SIGINT').removeAllListeners('SIGTERM');
    // The thread that kills a process with a blocked event loop has a real timer and must not run here.
    interrupt = listenForInterrupt({ limitMs: 600_000, onFirst, onEarlyExit });
  });
  afterEach(() => {
    interrupt.release();
    process.removeAllListeners('SIGINT').removeAllListeners('SIGTERM');
    vi.useRealTimers();
  });

  it('asks the program to stop, once per Ctrl-C even if the signal arrives several times', () => {
    expect(interrupt.status).toBeUndefined();
    process.emit('SIGINT');
    vi.advanceTimersByTime(40);
    process.emit('SIGINT');
    expect(interrupt.signal.aborted).toBe(true);
    expect(interrupt.status).toBe(130);
    expect(onFirst.mock.calls).toEqual([['SIGINT']]);
    expect(exit).not.toHaveBeenCalled();
  });

  it('exits at once when it is repeated', () => {
    process.emit('SIGTERM');
    vi.advanceTimersByTime(600);
    process.emit('SIGINT');
    expect(onEarlyExit.mock.calls).toEqual([['again']]);
    expect(exit).toHaveBeenCalledWith(143);
  });

  it('exits at its deadline, even if the program has ended with work pending', () => {
    process.emit('SIGTERM');
    interrupt.release();
    vi.advanceTimersByTime(599_999);
    expect(exit).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(onEarlyExit.mock.calls).toEqual([['limit']]);
    expect(exit).toHaveBeenCalledWith(143);
  });

  it('removes its signal handlers if no signal arrives', () => {
    interrupt.release();
    expect(process.listenerCount('SIGINT')).toBe(0);
    expect(process.listenerCount('SIGTERM')).toBe(0);
  });
});
