import { render } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { FlameAnswer } from "../api/answers.ts";
import { dataQualityNotices } from "../viewmodels/dataQualityNotices.ts";
import { plural } from "../lib/numbers.ts";
import { SegmentedControl, Toggle } from "../components/ui/Controls.tsx";
import { ChangeTable } from "../components/profile/ChangeTable.tsx";
import { CopyDialog } from "../components/ui/CopyButton.tsx";
import { ComparabilityChecks, VerdictSummary } from "../components/profile/VerdictSummary.tsx";
import { ProfileView } from "../components/profile/ProfileView.tsx";
import { QualityLine } from "../components/answer/QualityLine.tsx";
import { distinguishingMatchers } from "../lib/selectors.ts";
import { startRendering } from "../lib/signals.ts";
import { theme } from "../lib/theme.ts";
import { formatRange } from "../lib/times.ts";
import { keys } from "../components/controls/help.json";
import { setContent, change, followHistory, place } from "./fragmentLocation.ts";
import type { ProfileType, ViewName } from "../lib/viewOptions.ts";
import { BasisLine, Notices } from "../components/answer/Notices.tsx";
import "../styles/tokens.css";
import "../styles/page.css";
import "../styles/components.css";
import "../styles/flame.css";
import "../styles/depth.css";
import "../styles/profile.css";
import "./offline.css";

/** The data in the file (see model/sidelight_model/export_formats/html_export.py). */
interface OfflineFile {
  readonly about: {
    readonly title: string;
    readonly type: ProfileType;
    readonly exporter: string;
    readonly sides: readonly { readonly query: string; readonly from: string; readonly until: string }[];
  };
  readonly flame: FlameAnswer;
}

const LIST_VIEWS = [["table", "Table"], ["sandwich", "Sandwich"]] as const;

async function readFile(): Promise<OfflineFile> {
  const packed = Uint8Array.from(atob(document.getElementById("profile")?.textContent ?? ""), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json() as Promise<OfflineFile>;
}

function Page({ about, flame }: OfflineFile) {
  const { norm, view, raw } = place.value;
  const isComparison = flame.sides.length === 2;
  const verdict = isComparison ? (flame.verdict ?? null) : null;
  const shown = theme.value;
  useEffect(() => void (document.documentElement.dataset.theme = shown), [shown]);
  const names = useMemo(() => distinguishingMatchers(about.sides.map((side) => side.query)).map((own, at) => `${"AB"[at]} ${own.slice(0, 60)}`), []);
  const other = shown === "dark" ? "light" : "dark";
  return (
    <>
      <header class="top">
        <strong class="brand">Sidelight</strong>
        <span class="quiet">profile file, exported by {about.exporter}</span>
        <div class="right">
          <button type="button" onClick={() => change({ theme: other }, "replace")}>{other === "dark" ? "Dark" : "Light"}</button>
        </div>
      </header>
      <main id="main">
        <h1><bdi>{about.title}</bdi></h1>
        {isComparison && <VerdictSummary verdict={verdict} isOffline />}
        {about.sides.map((side, at) => (
          <div key={at} class="origin">
            {isComparison && <span class={`side side-${at === 0 ? "a" : "b"}`}>{"AB"[at]}</span>}
            <code><bdi>{side.query}</bdi></code>
            <span>{formatRange(side)}</span>
            <BasisLine basis={flame.sides[at]} sampled={flame.sides[at].seconds} />
            {flame.sides[at].pods > 0 && <QualityLine source={flame.sides[at]} />}
          </div>
        ))}
        <Notices notices={verdict ? dataQualityNotices([], [], flame.basis) : dataQualityNotices(flame.sides, isComparison ? ["A", "B"] : [""], flame.basis)} />
        {verdict && <ComparabilityChecks verdict={verdict} isCauseShown />}
        {flame.pruned.nodes > 0 && <p class="notices single">{plural(flame.pruned.nodes, "tiny call path")} grouped into <code>(other)</code>; totals are exact.</p>}
        <div class="viewbar">
          <SegmentedControl<ViewName> label="View" value={view === "sides" && !isComparison ? "flame" : view} onSelect={(next) => change({ view: next })}
            options={isComparison ? [["flame", "Differential"], ["sides", "Side by side"], ...LIST_VIEWS] : [["flame", "Flame graph"], ...LIST_VIEWS]} />
          {isComparison && <SegmentedControl label="Normalise by" value={norm} onSelect={(next) => change({ norm: next })} options={[["rate", "Per pod"], ["share", "% of total"]]} />}
          {verdict && <Toggle isOn={raw} title="Colour all differences beyond counting noise" onToggle={() => change({ raw: !raw })}>Show all differences</Toggle>}
        </div>
        {flame.sides.every(({ samples }) => samples === 0)
          ? <div class="card zero"><h2>No {about.type} samples in this file</h2><p>Export another type, selector or range.</p></div>
          : <ProfileView answer={flame} names={isComparison ? names : [""]} below={() => verdict && verdict.direction !== "not_comparable" && verdict.functions.function.length > 0 && <ChangeTable verdict={verdict} />} />}
        <details class="numbers card">
          <summary>Keyboard</summary>
          <dl class="keys">{keys.filter(([key]) => !["x", "l", "?"].includes(key)).map(([key, meaning]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{meaning}</dd></div>)}</dl>
        </details>
      </main>
      <CopyDialog />
    </>
  );
}

function DamagedFile() {
  return (
    <main><div class="card zero" role="alert">
      <h1>This file cannot be shown</h1>
      <p>The profile is damaged or incomplete, or this browser is too old. Export it again, or open it in a newer browser.</p>
    </div></main>
  );
}

followHistory();
const app = document.getElementById("app") as HTMLElement;
readFile().then(
  (found) => {
    setContent(found.flame.sides.length === 2 ? "compare" : "service", found.about.type);
    app.replaceChildren();
    startRendering(() => render(<Page {...found} />, app));
  },
  () => {
    app.replaceChildren();
    render(<DamagedFile />, app);
  },
);
