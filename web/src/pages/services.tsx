import { useEffect } from "preact/hooks";
import { useAnswer } from "../api/answer.ts";
import { apiUrl } from "../api/ask.ts";
import { epoch, type ServiceRow, type ServicesAnswer } from "../api/answers.ts";
import { change, place } from "../location.ts";
import { notices } from "../notices.ts";
import { count, plural, short } from "../numbers.ts";
import { Bar, BasisLine, Link, Notices, Show } from "../parts/basics.tsx";
import { useKeys } from "../parts/keys.ts";
import { rangeOf } from "../parts/range.tsx";
import { SortHeading } from "../parts/sorting.tsx";
import { ago, instant, zoned } from "../times.ts";
import { onPage } from "../url.ts";
import { ZeroProfiles } from "./zero.tsx";

/** Not seen for this many seconds before the end of the range: the row says so. */
const STALE_SECONDS = 600;

export function Services({ turn }: { turn: number }) {
  const asked = useAnswer<ServicesAnswer>(apiUrl("services", { ...rangeOf(place.value) }));
  useEffect(() => { if (turn > 0) asked.again(); }, [turn]);
  return (
    <>
      <h1>Services</h1>
      <Show asked={asked} what="services">
        {(answer) => (answer.services.length === 0 ? <ZeroProfiles arrived={asked.again} /> : <List answer={answer} />)}
      </Show>
    </>
  );
}

type Order = "service" | "cpu" | "pods" | "seen" | "samples";

const value: Record<Order, (row: ServiceRow) => number | string> = {
  service: (row) => row.service,
  cpu: (row) => row.cpu_cores ?? -1,
  pods: (row) => row.pods,
  seen: (row) => epoch(row.last_seen),
  samples: (row) => row.samples,
};

function List({ answer }: { answer: ServicesAnswer }) {
  useKeys({ "/": () => document.querySelector<HTMLInputElement>("#search")?.focus() });
  const { q, sort } = place.value;
  const now = Date.now() / 1000;
  const end = Math.min(instant(rangeOf(place.value).until, now) ?? now, now);
  const key = sort || "-cpu";
  const order = value[key.slice(1) as Order] ?? value.cpu;
  const sign = key.startsWith("-") ? -1 : 1;
  const wanted = q.toLowerCase();
  const rows = answer.services
    .filter((row) => row.service.toLowerCase().includes(wanted))
    .sort((a, b) => (order(a) < order(b) ? -sign : order(a) > order(b) ? sign : a.service < b.service ? -1 : 1));
  const most = Math.max(...rows.map((row) => row.cpu_cores ?? 0), 1e-9);
  const stale = rows.filter((row) => end - epoch(row.last_seen) > STALE_SECONDS).length;
  return (
    <section class="panel" aria-label="List of services">
      <Notices said={notices([], [], answer.basis)} />
      <div class="tools">
        <label class="search">
          <span class="unseen">Search services</span>
          <input id="search" type="search" value={q} placeholder="Search services  /" spellcheck={false}
            onInput={(event) => change({ q: event.currentTarget.value }, "replace")} />
        </label>
        <span class="quiet">{plural(rows.length, "service")}{stale > 0 && ` · ${stale} stale`}</span>
        <span class="gap" />
        <BasisLine basis={answer.basis} />
      </div>
      <div class="wide" tabIndex={0} role="region" aria-label="Table of services">
        <table class="services">
          <thead>
            <tr>
              <SortHeading id="service" text="Service" sorted={key} />
              <SortHeading id="cpu" text="CPU cores per pod" sorted={key} number />
              <th scope="col">Newest version</th>
              <SortHeading id="pods" text="Pods" sorted={key} number />
              <SortHeading id="samples" text="Samples" sorted={key} number />
              <SortHeading id="seen" text="Last seen" sorted={key} />
            </tr>
          </thead>
          <tbody>{rows.map((row) => <Row key={row.service} row={row} most={most} now={now} end={end} />)}</tbody>
        </table>
      </div>
      {rows.length === 0 && <p>No service is called like “<bdi>{q}</bdi>”. <button type="button" onClick={() => change({ q: "" }, "replace")}>Show all</button></p>}
    </section>
  );
}

function Row({ row, most, now, end }: { row: ServiceRow; most: number; now: number; end: number }) {
  const here = place.value;
  const to = onPage(here, "service", { service: row.service, query: "" });
  const versions = row.versions.filter(({ version }) => version !== "").sort((a, b) => epoch(b.first_seen) - epoch(a.first_seen));
  const stale = end - epoch(row.last_seen) > STALE_SECONDS;
  return (
    <tr>
      <th scope="row"><Link to={to} class="service" title={row.service}><bdi>{row.service.slice(0, 200)}</bdi></Link></th>
      <td class="number"><Bar part={(row.cpu_cores ?? 0) / most}>{row.cpu_cores === null ? "–" : short(row.cpu_cores)}</Bar></td>
      <td class="line">
        {versions.length === 0 ? <span class="quiet">no version label</span> : <bdi class="version" title={versions[0].version}>{versions[0].version.slice(0, 200)}</bdi>}
        {versions.length > 1 && (
          <> <Link to={onPage(here, "compare", { service: row.service, query: "", a: `version:${versions[1].version}`, b: `version:${versions[0].version}` })}
            title={`Compare ${versions[1].version} with ${versions[0].version}`}>compare with previous</Link>
          <span class="quiet"> · {versions.length} versions</span></>
        )}
      </td>
      <td class="number">{count(row.pods)}</td>
      <td class="number">{count(row.samples)}</td>
      <td class="line" title={zoned(epoch(row.last_seen))}>{ago(epoch(row.last_seen), now)} {stale && <span class="badge">stale</span>}</td>
    </tr>
  );
}
