import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Interrupt, interruptedStatus, listenForInterrupt } from '../../src/cli/interrupt.ts';

describe('an interrupt', () => {
  let interrupt: Interrupt;
  const heard = vi.fn();
  const exit = vi.spyOn(process, 'exit').mockImplementation(() => undefined as never);
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance'] });
    vi.clearAllMocks();
    interrupt = listenForInterrupt(heard);
  });
  afterEach(() => {
    interrupt.release();
    vi.useRealTimers();
  });

  it('asks the program to stop, once for all that pass the same Ctrl-C on', () => {
    process.emit('SIGINT');
    vi.advanceTimersByTime(40);
    process.emit('SIGINT');
    expect(interrupt.signal.aborted).toBe(true);
    expect(heard).toHaveBeenCalledTimes(1);
    expect(exit).not.toHaveBeenCalled();
  });

  it('leaves at once when it comes again', () => {
    process.emit('SIGINT');
    vi.advanceTimersByTime(600);
    process.emit('SIGINT');
    expect(exit).toHaveBeenCalledWith(interruptedStatus);
  });
});
