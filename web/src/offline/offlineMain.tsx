import { render } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { FlameAnswer } from "../api/answers.ts";
import { notices } from "../viewmodels/dataQualityNotices.ts";
import { count } from "../lib/numbers.ts";
import { Segments, Toggle } from "../components/ui/Controls.tsx";
import { Changes } from "../components/profile/ChangeTable.tsx";
import { Copying } from "../components/ui/CopyButton.tsx";
import { Checks, Finding } from "../components/profile/VerdictSummary.tsx";
import { Lensed } from "../components/profile/ProfileView.tsx";
import { QualityLine } from "../components/answer/QualityLine.tsx";
import { apart } from "../lib/selectors.ts";
import { drawn } from "../lib/signals.ts";
import { theme } from "../lib/theme.ts";
import { rangeName } from "../lib/times.ts";
import { keys } from "../components/controls/help.json";
import { begin, change, followHistory, place } from "./fragmentLocation.ts";
import type { ProfileType, ViewName } from "../lib/viewOptions.ts";
import { BasisLine, Notices } from "../components/answer/Notices.tsx";
import "../styles/tokens.css";
import "../styles/page.css";
import "../styles/components.css";
import "../styles/flame.css";
import "../styles/depth.css";
import "../styles/profile.css";
import "./offline.css";

/** What the collector put into the file (see model/sidelight_model/export_formats/html_export.py). */
interface Carried {
  readonly about: {
    readonly title: string;
    readonly type: ProfileType;
    readonly exporter: string;
    readonly sides: readonly { readonly query: string; readonly from: string; readonly until: string }[];
  };
  readonly flame: FlameAnswer;
}

const LISTS = [["table", "Table"], ["sandwich", "Sandwich"]] as const;

async function carried(): Promise<Carried> {
  const packed = Uint8Array.from(atob(document.getElementById("profile")?.textContent ?? ""), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json() as Promise<Carried>;
}

function Page({ about, flame }: Carried) {
  const { norm, view, raw } = place.value;
  const two = flame.sides.length === 2;
  const verdict = two ? (flame.verdict ?? null) : null;
  const shown = theme.value;
  useEffect(() => void (document.documentElement.dataset.theme = shown), [shown]);
  const names = useMemo(() => apart(about.sides.map((side) => side.query)).map((own, at) => `${"AB"[at]} ${own.slice(0, 60)}`), []);
  const other = shown === "dark" ? "light" : "dark";
  return (
    <>
      <header class="top">
        <strong class="brand">Sidelight</strong>
        <span class="quiet">a profile in a file, by {about.exporter}</span>
        <div class="right">
          <button type="button" onClick={() => change({ theme: other }, "replace")}>{other === "dark" ? "Dark" : "Light"}</button>
        </div>
      </header>
      <main id="main">
        <h1><bdi>{about.title}</bdi></h1>
        {two && <Finding verdict={verdict} apart />}
        {about.sides.map((side, at) => (
          <div key={at} class="origin">
            {two && <span class={`side side-${at === 0 ? "a" : "b"}`}>{"AB"[at]}</span>}
            <code><bdi>{side.query}</bdi></code>
            <span>{rangeName(side)}</span>
            <BasisLine basis={flame.sides[at]} sampled={flame.sides[at].seconds} />
            {flame.sides[at].pods > 0 && <QualityLine of={flame.sides[at]} />}
          </div>
        ))}
        <Notices said={verdict ? notices([], [], flame.basis) : notices(flame.sides, two ? ["A", "B"] : [""], flame.basis)} />
        {verdict && <Checks verdict={verdict} told />}
        {flame.pruned.nodes > 0 && <p class="notices single">{count(flame.pruned.nodes)} of the smallest call paths are summed into <code>(other)</code>; totals are exact.</p>}
        <div class="viewbar">
          <Segments<ViewName> label="View" value={view === "sides" && !two ? "flame" : view} choose={(next) => change({ view: next })}
            options={two ? [["flame", "Differential"], ["sides", "Side by side"], ...LISTS] : [["flame", "Flame graph"], ...LISTS]} />
          {two && <Segments label="Normalise by" value={norm} choose={(next) => change({ norm: next })} options={[["rate", "Per pod-second"], ["share", "Share of side"]]} />}
          {verdict && <Toggle on={raw} title="All that is beyond counting noise" flip={() => change({ raw: !raw })}>Raw differences</Toggle>}
        </div>
        {flame.sides.every(({ samples }) => samples === 0)
          ? <div class="card zero"><h2>There are no {about.type} samples in this file</h2><p>Export another type, selector or range.</p></div>
          : <Lensed answer={flame} names={two ? names : [""]} below={() => verdict && verdict.direction !== "incomparable" && verdict.functions.function.length > 0 && <Changes verdict={verdict} />} />}
        <details class="numbers card">
          <summary>Keyboard</summary>
          <dl class="keys">{keys.filter(([key]) => !["x", "l", "?"].includes(key)).map(([key, meaning]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{meaning}</dd></div>)}</dl>
        </details>
      </main>
      <Copying />
    </>
  );
}

function Damaged() {
  return (
    <main><div class="card zero" role="alert">
      <h1>This file cannot be shown</h1>
      <p>The profile in it is damaged or was cut off, or this browser is too old to unpack it. Export it once more, or open it in a newer browser.</p>
    </div></main>
  );
}

followHistory();
const app = document.getElementById("app") as HTMLElement;
carried().then(
  (found) => {
    begin(found.flame.sides.length === 2 ? "compare" : "service", found.about.type);
    app.replaceChildren();
    drawn(() => render(<Page {...found} />, app));
  },
  () => {
    app.replaceChildren();
    render(<Damaged />, app);
  },
);
