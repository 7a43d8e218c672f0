import type { ComponentChildren } from "preact";
import type { WorkloadsAnswer } from "../../api/answers.ts";
import type { Deploy } from "../../api/deploys.ts";
import type { OverviewAnswer } from "../../api/grids.ts";
import { savedViews } from "../../viewmodels/browserStorage.ts";
import { place } from "../../lib/location.ts";
import { short, signedPercent } from "../../lib/numbers.ts";
import { formatAgo } from "../../lib/times.ts";
import { appearanceOf, onPage, parseAddress, START, type Place } from "../../lib/url.ts";
import { findAttention, type Finding } from "../../viewmodels/attention.ts";
import { Link } from "../ui/Controls.tsx";
import { deployPlace } from "./DeployList.tsx";
import { describeMissing } from "./Workloads.tsx";
import * as strings from "../../strings/serviceStrings.tsx";

const SHOWN = 3;

interface CardProps {
  readonly title: string;
  readonly items: readonly (readonly [key: string, to: Place, name: string, detail: string])[];
  /** Where all of them are, and how many there are in all. */
  readonly all?: Place;
  readonly total?: number;
  readonly children?: ComponentChildren;
}

/** What needs attention: each kind as a card with its first services; a kind without services has no card. */
export function AttentionCards({ answer, findings, deploys, workloads }: {
  answer: OverviewAnswer; findings: readonly Finding[]; deploys: ReadonlyMap<string, Deploy>; workloads: WorkloadsAnswer | null;
}) {
  const here = place.value;
  const now = Date.now() / 1000;
  const coverage: Place = { ...START, ...appearanceOf(here), page: "fleet" };
  const { regressed, improved, deployed, hottest } = findAttention(answer, findings, deploys, now);
  const comparison = (at: number): Place => {
    const deploy = deploys.get(answer.service[at]);
    return deploy ? deployPlace(deploy) : onPage(here, "compare", { service: answer.service[at], baseline: `version:${answer.previous.version[at] ?? ""}`, comparison: `version:${answer.current.version[at] ?? ""}` });
  };
  const judged = (indices: readonly number[]): CardProps["items"] => indices.map((at) => {
    const { relative } = findings[at];
    return [answer.service[at], comparison(at), answer.service[at], relative > 1e6 ? "" : signedPercent(relative)];
  });
  const isWatched = workloads !== null && workloads.discovery.state !== "off";
  return (
    <section class="attention" aria-label={strings.needsAttention}>
      <Card title={strings.regressedTitle} items={judged(regressed)} all={{ ...here, sort: "-change" }} />
      <Card title={strings.improvedTitle} items={judged(improved)} all={{ ...here, sort: "+change" }} />
      <Card title={strings.deployedTitle} all={{ ...here, sort: "-change" }}
        items={deployed.map((at) => [answer.service[at], comparison(at), answer.service[at], `${(answer.current.version[at] ?? "").slice(0, 30)} · ${formatAgo(answer.current.first_seen[at] ?? now, now)}`])} />
      {isWatched && workloads.total > 0 && (
        <Card title={strings.unprofiledTitle} total={workloads.total} all={coverage}
          items={workloads.workloads.slice(0, SHOWN).map((workload) => [
            `${workload.namespace} ${workload.workload} ${workload.service}`, { ...coverage, q: workload.workload }, `${workload.service} (${workload.namespace})`, describeMissing(workload),
          ])} />
      )}
      <Card title={strings.hottestTitle} items={hottest.map((at) => [answer.service[at], onPage(here, "service", { service: answer.service[at] }), answer.service[at], strings.coresOf(short(answer.cores[at] ?? 0))])} />
      <SavedViews />
    </section>
  );
}

function Card({ title, items, all, total = items.length }: CardProps) {
  if (items.length === 0) return null;
  return (
    <section class="card">
      <h2>{title}</h2>
      <ul>{items.slice(0, SHOWN).map(([key, to, name, detail]) => <li key={key}><Link to={to} title={name}><bdi>{name.slice(0, 100)}</bdi> <span class="quiet">{detail}</span></Link></li>)}</ul>
      {all && total > SHOWN && <p><Link to={all}>{strings.moreInList(total - SHOWN)}</Link></p>}
    </section>
  );
}

function SavedViews() {
  const views = savedViews.list.value;
  if (views.length === 0) return null;
  return (
    <section class="card">
      <h2>{strings.savedTitle}</h2>
      <ul>
        {views.toReversed().slice(0, 6).map(({ name, path }) => (
          <li key={name}>
            <Link to={parseAddress(path)} title={path}><bdi>{name.slice(0, 100)}</bdi></Link>{" "}
            <button type="button" class="flat square" aria-label={strings.removeSaved(name.slice(0, 80))} title={strings.removeSavedHint} onClick={() => savedViews.store(views.filter((view) => view.name !== name))}>×</button>
          </li>
        ))}
      </ul>
    </section>
  );
}
