/** Frames in a row that come so many times one after the other. */
export interface FrameRun {
  readonly frames: readonly string[];
  readonly count: number;
}

const MAX_CYCLE_FRAMES = 32;

/**
 * A stack with what repeats folded: at each frame the repetition, of up to 32 frames, that covers the most is
 * taken, the shortest of equals. Written out, the runs are the stack.
 */
export function foldCycles(stack: readonly string[]): FrameRun[] {
  const runs: { frames: string[]; count: number }[] = [];
  for (let at = 0; at < stack.length; ) {
    let [size, times] = [1, 1];
    for (let length = 1; length <= MAX_CYCLE_FRAMES && at + 2 * length <= stack.length; length++) {
      let matching = 0;
      while (at + length + matching < stack.length && stack[at + matching] === stack[at + length + matching]) matching++;
      const count = Math.floor(matching / length) + 1;
      if (count > 1 && count * length > size * times) [size, times] = [length, count];
    }
    const last = runs.at(-1);
    if (times === 1 && last?.count === 1) last.frames.push(stack[at]);
    else runs.push({ frames: stack.slice(at, at + size), count: times });
    at += size * times;
  }
  return runs;
}
