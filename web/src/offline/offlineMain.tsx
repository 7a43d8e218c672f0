import { render } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { FlameAnswer } from "../api/answers.ts";
import { dataQualityNotices } from "../viewmodels/dataQualityNotices.ts";
import { SegmentedControl } from "../components/ui/Controls.tsx";
import { CopyDialog } from "../components/ui/CopyButton.tsx";
import { ComparisonControls } from "../components/profile/ComparisonControls.tsx";
import { ChecksButton } from "../components/verdict/ComparabilityChecks.tsx";
import { CulpritTable } from "../components/verdict/CulpritTable.tsx";
import { SecondaryEffects } from "../components/verdict/SecondaryEffects.tsx";
import { VerdictLine, VerdictReasons } from "../components/verdict/VerdictCard.tsx";
import { Dropdown } from "../components/ui/Dropdown.tsx";
import { BASIS_NAMES } from "../viewmodels/verdictText.ts";
import { ProfileView } from "../components/profile/ProfileView.tsx";
import { QualityLine } from "../components/answer/QualityLine.tsx";
import { distinguishingMatchers } from "../lib/selectors.ts";
import { startRendering } from "../lib/signals.ts";
import { theme } from "../lib/theme.ts";
import { formatRange } from "../lib/times.ts";
import { keys } from "../strings/help.json";
import { setContent, change, followHistory, place } from "./fragmentLocation.ts";
import type { ProfileType, ViewName } from "../lib/viewOptions.ts";
import { BasisLine, Notices } from "../components/answer/Notices.tsx";
import * as strings from "../strings/offlineStrings.tsx";
import "../styles/tokens.css";
import "../styles/page.css";
import "../styles/components.css";
import "../styles/flame.css";
import "../styles/depth.css";
import "../styles/profile.css";
import "../styles/compare.css";
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

async function readFile(): Promise<OfflineFile> {
  const packed = Uint8Array.from(atob(document.getElementById("profile")?.textContent ?? ""), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json() as Promise<OfflineFile>;
}

function Page({ about, flame }: OfflineFile) {
  const { view } = place.value;
  const isComparison = flame.sides.length === 2;
  const verdict = isComparison ? (flame.verdict ?? null) : null;
  const shown = theme.value;
  useEffect(() => void (document.documentElement.dataset.theme = shown), [shown]);
  const names = useMemo(() => distinguishingMatchers(about.sides.map((side) => side.query)).map((own, at) => `${"AB"[at]} ${own.slice(0, 60)}`), []);
  const notices = verdict ? dataQualityNotices([], [], flame.basis) : dataQualityNotices(flame.sides, isComparison ? ["A", "B"] : [""], flame.basis);
  const other = shown === "dark" ? "light" : "dark";
  return (
    <>
      <header class="top">
        <strong class="brand">{strings.sidelight}</strong>
        <span class="quiet">{strings.profileFileExportedBy(about.exporter)}</span>
        <div class="right">
          <button type="button" onClick={() => change({ theme: other }, "replace")}>{other === "dark" ? strings.dark : strings.light}</button>
        </div>
      </header>
      <main id="main" class={isComparison ? "compare" : ""}>
        <h1><bdi>{about.title}</bdi></h1>
        {isComparison && (verdict
          ? <>
              <VerdictLine verdict={verdict}>
                <span>{BASIS_NAMES[verdict.basis]}</span>
                <Dropdown isText text={strings.whyMenu} label={strings.whyAndHowSure}><VerdictReasons verdict={verdict} ranges={flame.ranges} /></Dropdown>
                <span class="gap" />
                <ChecksButton verdict={verdict} notices={notices} isOffline />
              </VerdictLine>
              <CulpritTable verdict={verdict} />
              <SecondaryEffects verdict={verdict} isOffline />
            </>
          : <VerdictLine verdict={null} />)}
        {about.sides.map((side, at) => (
          <div key={at} class="origin">
            {isComparison && <span class={`side side-${at === 0 ? "a" : "b"}`}>{"AB"[at]}</span>}
            <code><bdi>{side.query}</bdi></code>
            <span>{formatRange(side)}</span>
            <BasisLine basis={flame.sides[at]} sampled={flame.sides[at].seconds} />
            {flame.sides[at].pods > 0 && <QualityLine source={flame.sides[at]} />}
          </div>
        ))}
        {!verdict && <Notices notices={notices} />}
        {flame.pruned.nodes > 0 && <p class="notices single">{strings.tinyCallPathGrouped(flame.pruned.nodes, <code>(other)</code>)}</p>}
        {!isComparison && (
          <div class="viewbar">
            <SegmentedControl<ViewName> label={strings.view} value={view === "sides" ? "flame" : view} onSelect={(next) => change({ view: next })} options={[["flame", strings.flameGraph], ["table", strings.table], ["sandwich", strings.sandwich]]} />
          </div>
        )}
        {flame.sides.every(({ samples }) => samples === 0)
          ? <div class="card zero"><h2>{strings.noSamplesInFile(about.type)}</h2><p>{strings.exportAnotherTypeSelector}</p></div>
          : <ProfileView answer={flame} names={isComparison ? names : [""]} controls={isComparison ? <ComparisonControls verdict={verdict} isOffline /> : undefined} />}
        <details class="numbers card">
          <summary>{strings.keyboard}</summary>
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
      <h1>{strings.fileCannotBeShown}</h1>
      <p>{strings.profileDamagedOrIncomplete}</p>
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
