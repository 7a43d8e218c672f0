import { useEffect, useMemo, useState } from "preact/hooks";
import { changesOf } from "../flame/changes.ts";
import { functionOf, sandwichOf } from "../flame/offers.ts";
import { frameParts } from "../flame/packages.ts";
import { normalised } from "../flame/pictures.ts";
import type { Reading } from "../flame/reading.ts";
import { searchable } from "../flame/search.ts";
import { href, place } from "../location.ts";
import { signed } from "../numbers.ts";
import { CopyButton } from "./copying.tsx";
import { Badge } from "./badge.tsx";
import { Link } from "./basics.tsx";
import { Table } from "./table.tsx";
import type { Change } from "../flame/compare.ts";

const MOST = 10;

/** The functions whose time changed most, under the picture: each leads on. */
export function Changes({ reading }: { reading: Reading }) {
  // After the picture, which is looked at first.
  const [ready, be] = useState(false);
  useEffect(() => be(true), []);
  return ready ? <Rows reading={reading} /> : null;
}

function Rows({ reading }: { reading: Reading }) {
  const here = place.value;
  const { norm, sig } = here;
  const { tree, divisor } = reading;
  const rows = useMemo(() => changesOf(reading, MOST, sig), [reading, sig]);
  const delta = (change: Change) => (
    <td class={`number ${change.direction}`}>
      {change.direction === "same" ? "≈ n.s." : <>{change.delta > 0 ? "▲" : "▼"} {signed(norm === "rate" ? normalised(change.delta, 1, norm) : `${(change.delta * 100).toFixed(2)} pp`, change.delta)}</>}
    </td>
  );
  return (
    <section class="card changes" aria-label="Largest changes">
      <div class="caption"><h2>Largest changes</h2><Link to={{ ...here, view: "table", sort: "-total", q: "" }}>All of them</Link></div>
      {rows.length === 0 ? <p class="quiet">No function changed beyond counting noise.</p> : (
        <Table label="Functions that changed most" heads={["Function", "#A total", "#B total", "#Δ total", "#Δ self", "~Leads to"]}>
          {rows.map(({ name, us, total, self }) => {
            const text = tree.names[name];
            const { function: fn, file } = frameParts(text);
            const found = { ...here, q: searchable(text), view: "flame" as const, focus: "" };
            return (
              <tr key={name}>
                <th scope="row">
                  <Link to={found} title="Find in the graph"><bdi>{fn.slice(0, 200)}</bdi></Link> <bdi class="quiet">{file.slice(0, 200)}</bdi>
                  <Badge of={total} />
                </th>
                {us.map((value, side) => <td key={side} class="number">{normalised(value, divisor[side], norm)}</td>)}
                {delta(total)}{delta(self)}
                <td class="acts">
                  <Link class="button" to={{ ...here, ...sandwichOf(functionOf(tree, name)) }} title="Callers and callees">sandwich</Link>{" "}
                  <CopyButton text={() => text} what="Name">copy</CopyButton>{" "}
                  <CopyButton text={() => window.location.origin + href(found)} what="Link">link</CopyButton>
                </td>
              </tr>
            );
          })}
        </Table>
      )}
    </section>
  );
}
