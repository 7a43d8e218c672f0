/** Frames in a row that come so many times one after the other. */
export interface Run {
  readonly frames: readonly string[];
  readonly times: number;
}

const LONGEST = 32;

/**
 * A stack with what repeats folded: at each frame the repetition, of up to 32 frames, that covers the most is
 * taken, the shortest of equals. Written out, the runs are the stack.
 */
export function cycles(stack: readonly string[]): Run[] {
  const runs: { frames: string[]; times: number }[] = [];
  for (let at = 0; at < stack.length; ) {
    let [size, times] = [1, 1];
    for (let length = 1; length <= LONGEST && at + 2 * length <= stack.length; length++) {
      let same = 0;
      while (at + length + same < stack.length && stack[at + same] === stack[at + length + same]) same++;
      const count = Math.floor(same / length) + 1;
      if (count > 1 && count * length > size * times) [size, times] = [length, count];
    }
    const last = runs.at(-1);
    if (times === 1 && last?.times === 1) last.frames.push(stack[at]);
    else runs.push({ frames: stack.slice(at, at + size), times });
    at += size * times;
  }
  return runs;
}
