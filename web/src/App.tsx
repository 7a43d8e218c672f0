import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { place } from "./lib/location.ts";
import { followedCaptures } from "./viewmodels/browserStorage.ts";
import { setUtc } from "./lib/times.ts";
import { CopyDialog } from "./components/ui/CopyButton.tsx";
import { useAutoRefresh } from "./components/controls/autoRefresh.ts";
import { captureDraft, openPalette, paletteText } from "./components/controls/dialogs.ts";
import { noteDraft } from "./components/notes/serviceNotes.ts";
import { Header } from "./components/controls/Header.tsx";
import { openHelp } from "./components/controls/HelpDialog.tsx";
import { useKeys } from "./components/ui/useKeys.ts";
import { Link } from "./components/ui/Controls.tsx";
import { ConnectionBanner } from "./components/answer/Loading.tsx";
import { onDemand } from "./components/answer/OnDemand.tsx";
import { ComparePage } from "./pages/ComparePage.tsx";
import { ServicePage } from "./pages/ServicePage.tsx";
import { ServicesPage } from "./pages/ServicesPage.tsx";
import { START, type Place } from "./lib/url.ts";
import * as strings from "./strings/applicationStrings.ts";

const DepthPage = onDemand(async () => (await import("./pages/DepthPage.tsx")).DepthPage, strings.thisPage);
const HeatmapPage = onDemand(async () => (await import("./pages/HeatmapPage.tsx")).HeatmapPage, strings.thisPage);
const CoveragePage = onDemand(async () => (await import("./pages/CoveragePage.tsx")).CoveragePage, strings.thisPage);
const FunctionsPage = onDemand(async () => (await import("./pages/FunctionsPage.tsx")).FunctionsPage, strings.thisPage);
const CapturesPage = onDemand(async () => (await import("./pages/CapturesPage.tsx")).CapturesPage, strings.thisPage);
const CapturePage = onDemand(async () => (await import("./pages/CapturePage.tsx")).CapturePage, strings.thisPage);
const FilesPage = onDemand(async () => (await import("./pages/FilesPage.tsx")).FilesPage, strings.thisPage);
const SettingsPage = onDemand(async () => (await import("./pages/SettingsPage.tsx")).SettingsPage, strings.thisPage);
const CaptureDialog = onDemand(async () => (await import("./components/captures/CaptureDialog.tsx")).CaptureDialog, strings.theCaptureForm);
const CaptureProgress = onDemand(async () => (await import("./components/captures/CaptureProgress.tsx")).CaptureProgress, strings.theCaptureProgress);
const NotesDialog = onDemand(async () => (await import("./components/notes/NotesDialog.tsx")).NotesDialog, strings.theNotes);
const Palette = onDemand(async () => (await import("./components/palette/Palette.tsx")).Palette, strings.thePalette);

/** `refreshCount` counts the presses of Refresh: a page requests its answers again when it grows. */
export function App() {
  const [refreshCount, setTurn] = useState(0);
  const here = place.value;
  const refresh = () => setTurn((now) => now + 1);
  setUtc(here.utc);
  useEffect(() => {
    document.title = titleOf(here);
  }, [here.page, here.service]);
  useKeys({ "?": openHelp });
  useAutoRefresh(refresh);
  usePaletteKey();
  const [draft, text] = [captureDraft.value, paletteText.value];
  return (
    <>
      {here.page === "service" || here.page === "compare" ? <a class="skip" href="#main" onClick={skipToGraph}>{strings.skipToGraph}</a> : <a class="skip" href="#main">{strings.skipToContent}</a>}
      <Header refresh={refresh} />
      <ConnectionBanner />
      <main id="main" tabIndex={-1}><Page here={here} refreshCount={refreshCount} key={`${here.page} ${here.service} ${here.utc}`} /></main>
      <CopyDialog />
      {draft && <CaptureDialog draft={draft} key={JSON.stringify(draft)} />}
      {noteDraft.value && <NotesDialog draft={noteDraft.value} key={JSON.stringify(noteDraft.value)} />}
      {text !== null && <Palette text={text} refresh={refresh} />}
      {followedCaptures.list.value.length > 0 && <CaptureProgress />}
    </>
  );
}

/** Ctrl-K (or ⌘K) opens the palette, also from a field. */
function usePaletteKey(): void {
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      openPalette();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

/** The graph is what most of such a page explains. */
function skipToGraph(event: MouseEvent): void {
  const canvas = document.querySelector<HTMLElement>(".flame canvas");
  if (!canvas) return;
  event.preventDefault();
  canvas.focus();
}

function Page({ here, refreshCount }: { here: Place; refreshCount: number }) {
  if (here.page === "services") return <ServicesPage refreshCount={refreshCount} />;
  if (here.page === "service") return <ServicePage refreshCount={refreshCount} />;
  if (here.page === "compare") return <ComparePage refreshCount={refreshCount} />;
  if (here.page === "depth") return <DepthPage refreshCount={refreshCount} />;
  if (here.page === "heatmap") return <HeatmapPage refreshCount={refreshCount} />;
  if (here.page === "fleet") return <CoveragePage refreshCount={refreshCount} />;
  if (here.page === "functions") return <FunctionsPage refreshCount={refreshCount} />;
  if (here.page === "captures") return <CapturesPage refreshCount={refreshCount} />;
  if (here.page === "capture") return <CapturePage refreshCount={refreshCount} />;
  if (here.page === "files") return <FilesPage />;
  if (here.page === "settings") return <SettingsPage />;
  return <div class="card zero"><h1>{strings.noSuchPage}</h1><p><Link to={START}>{strings.showAllServices}</Link></p></div>;
}

function titleOf(here: Place): string {
  const service = here.service.slice(0, 80);
  const names = {
    services: strings.services, service, compare: strings.compareTitle(service), depth: strings.depthTitle(service), heatmap: strings.heatmapTitle(service),
    fleet: strings.coverage, functions: strings.functions,
    captures: strings.captures, capture: strings.captureTitle(here.capture.slice(0, 80)), files: strings.files, settings: strings.settingsAndHelp, unknown: strings.noSuchPage,
  };
  return `${names[here.page]} · Sidelight`;
}
