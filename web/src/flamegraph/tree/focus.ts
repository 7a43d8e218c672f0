import type { Shape, Tree } from "./tree.ts";

/**
 * A call path as a short word for the URL: two 32-bit hashes over the names from the root down, then
 * the last frame's name so that a page can say what it looked for. The word depends on names alone,
 * so it means the same path after a reload, in another time range and on both sides of a comparison.
 */
export function pathKey(tree: Tree, node: number): string {
  if (node <= 0) return "";
  const names: string[] = [];
  for (let i = node, level = tree.level[node]; i >= 0 && level > 0; i--) {
    if (tree.level[i] !== level) continue;
    names.push(tree.names[tree.name[i]]);
    level--;
  }
  return pathKeyOfNames(names.reverse());
}

/** The word of a path given by its names, the root left out. */
export function pathKeyOfNames(names: readonly string[]): string {
  let high = SEED_HIGH;
  let low = SEED_LOW;
  for (const name of names) {
    high = mixHash(high, hash(name, SEED_HIGH));
    low = mixHash(low, hash(name, SEED_LOW));
  }
  return `${toHex(high)}${toHex(low)}.${truncateName(names[names.length - 1])}`;
}

/** The node a focus word means: 0 for the empty word, -1 when the path is not in this tree. */
export function findPathKey(tree: Tree, key: string): number {
  if (key === "") return 0;
  const high = Number.parseInt(key.slice(0, 8), 16) | 0;
  const low = Number.parseInt(key.slice(8, 16), 16) | 0;
  const nameHigh = Int32Array.from(tree.names, (name) => hash(name, SEED_HIGH));
  const nameLow = Int32Array.from(tree.names, (name) => hash(name, SEED_LOW));
  const highAt = [SEED_HIGH];
  const lowAt = [SEED_LOW];
  for (let i = 1; i < tree.level.length; i++) {
    const at = tree.level[i];
    highAt[at] = mixHash(highAt[at - 1], nameHigh[tree.name[i]]);
    lowAt[at] = mixHash(lowAt[at - 1], nameLow[tree.name[i]]);
    if (highAt[at] === high && lowAt[at] === low) return i;
  }
  return -1;
}

/**
 * The level of the first row where callers are folded into one line: that of the focus, or of a whole tree that of the
 * first frames that differ from all time. A tree that is one stack stays as it is.
 */
export function firstLevel({ level }: Tree, { end }: Shape, total: Float64Array, focus: number): number {
  if (focus > 0) return level[focus];
  let node = 0;
  while (node + 1 < end[node] && end[node + 1] === end[node] && total[node + 1] >= total[node] * (1 - 1e-9)) node++;
  return node >= 2 && node + 1 < end[node] ? node + 1 : 0;
}

/** The frame name a focus word was made with. */
export const pathKeyName = (key: string): string => key.slice(17);

/** A name as the address has it: itself, or where it is too long for that, two hashes of it and its start. */
export const nameKey = (name: string): string =>
  name.length <= 240 ? name : `${toHex(hash(name, SEED_HIGH))}${toHex(hash(name, SEED_LOW))}.${truncateName(name)}…`;

/** What a person reads of a name word. */
export const nameKeyText = (key: string): string => (/^[0-9a-f]{16}\..*…$/su.test(key) ? pathKeyName(key) : key);

const truncateName = (name: string) => [...name.slice(0, 160)].slice(0, 80).join("");

const SEED_HIGH = 0x811c9dc5 | 0;
const SEED_LOW = 0x9747b28c | 0;
const toHex = (value: number) => (value >>> 0).toString(16).padStart(8, "0");

/** FNV-1a over UTF-16 units. */
export function hash(text: string, seed: number): number {
  let value = seed;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value;
}

/** Mixes a name into the hash of the path above it (murmur3's finaliser). */
function mixHash(path: number, name: number): number {
  let value = Math.imul(path ^ name, 0xcc9e2d51);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) + 0x9e3779b9 | 0;
}
