/** One call tree in the shapes the contenders want; the same seed gives the same tree. */

export interface Node {
  name: string;
  value: number;
  children: Node[];
}

const NAMES = Array.from({ length: 900 }, (_, at) => `function_${at} (package${at % 40}/module${at % 90}.py)`);

/** A tree of `count` nodes, about 40 deep: each new node hangs below one of the latest, as call paths do. */
export function grow(count: number): Node {
  let state = 42;
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 0x1_0000_0000;
  };
  const root: Node = { name: "total", value: 0, children: [] };
  const nodes = [root];
  const depth = [0];
  const seen = new Set<string>();
  while (nodes.length < count) {
    const recent = Math.max(nodes.length - 400, 0);
    const at = next() < 0.7 ? recent + Math.floor(next() * (nodes.length - recent)) : Math.floor(next() * nodes.length);
    const name = Math.floor(next() * NAMES.length);
    if (depth[at] >= 60 || seen.has(`${at} ${name}`)) continue;
    seen.add(`${at} ${name}`);
    const node = { name: NAMES[name], value: 1 + Math.floor(next() ** 4 * 200), children: [] };
    nodes[at].children.push(node);
    nodes.push(node);
    depth.push(depth[at] + 1);
  }
  for (let at = nodes.length - 1; at >= 0; at--) {
    for (const child of nodes[at].children) nodes[at].value += child.value;
  }
  return root;
}

/** The columns that the collector sends. */
export function columns(root: Node) {
  const index = new Map([["total", 0], ...NAMES.map((name, at) => [name, at + 1] as [string, number])]);
  const level: number[] = [];
  const name: number[] = [];
  const self_us: number[] = [];
  const pending: [Node, number][] = [[root, 0]];
  for (let top = pending.pop(); top; top = pending.pop()) {
    const [node, depth] = top;
    level.push(depth);
    name.push(index.get(node.name) as number);
    self_us.push(node.value - node.children.reduce((all, child) => all + child.value, 0));
    for (const child of node.children) pending.push([child, depth + 1]);
  }
  return { names: [...index.keys()], level, name, sides: [{ self_us, self_samples: self_us }] };
}

/** A row a node, in pre-order, with its total: what Grafana's data frame holds. */
export function rows(root: Node) {
  const { names, level, name, sides } = columns(root);
  const total: number[] = [];
  const below: number[] = [];
  for (let i = level.length - 1; i >= 0; i--) {
    const at = level[i];
    total[i] = sides[0].self_us[i] + (below[at + 1] ?? 0);
    below[at + 1] = 0;
    below[at] = (below[at] ?? 0) + total[i];
  }
  return { names, level, name, total, self: sides[0].self_us };
}

/** Speedscope's own file format: every call path that has time of its own, with its weight. */
export function sampled(root: Node) {
  const { names, level, name, sides } = columns(root);
  const samples: number[][] = [];
  const weights: number[] = [];
  const path: number[] = [];
  for (let i = 0; i < level.length; i++) {
    path.length = level[i];
    path.push(name[i]);
    if (sides[0].self_us[i] === 0) continue;
    samples.push([...path]);
    weights.push(sides[0].self_us[i]);
  }
  const endValue = weights.reduce((all, weight) => all + weight, 0);
  const profile = { type: "sampled", name: "bench", unit: "microseconds", startValue: 0, endValue, samples, weights };
  return {
    $schema: "https://www.speedscope.app/file-format-schema.json", shared: { frames: names.map((text) => ({ name: text })) },
    profiles: [profile], name: "bench",
  };
}
