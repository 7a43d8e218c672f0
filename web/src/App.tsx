import { useEffect, useState } from "preact/hooks";
import { place } from "./lib/location.ts";
import { CopyDialog } from "./components/ui/CopyButton.tsx";
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
const CapturesPage = onDemand(async () => (await import("./pages/CapturesPage.tsx")).CapturesPage, strings.thisPage);
const CapturePage = onDemand(async () => (await import("./pages/CapturePage.tsx")).CapturePage, strings.thisPage);
const SettingsPage = onDemand(async () => (await import("./pages/SettingsPage.tsx")).SettingsPage, strings.thisPage);

/** `refreshCount` counts the presses of Refresh: a page requests its answers again when it grows. */
export function App() {
  const [refreshCount, setTurn] = useState(0);
  const here = place.value;
  useEffect(() => {
    document.title = titleOf(here);
  }, [here.page, here.service]);
  useKeys({ "?": openHelp });
  return (
    <>
      <a class="skip" href="#main">{strings.skipToContent}</a>
      <Header refresh={() => setTurn((now) => now + 1)} />
      <ConnectionBanner />
      <main id="main" tabIndex={-1}><Page here={here} refreshCount={refreshCount} key={`${here.page} ${here.service}`} /></main>
      <CopyDialog />
    </>
  );
}

function Page({ here, refreshCount }: { here: Place; refreshCount: number }) {
  if (here.page === "services") return <ServicesPage refreshCount={refreshCount} />;
  if (here.page === "service") return <ServicePage refreshCount={refreshCount} />;
  if (here.page === "compare") return <ComparePage refreshCount={refreshCount} />;
  if (here.page === "depth") return <DepthPage refreshCount={refreshCount} />;
  if (here.page === "heatmap") return <HeatmapPage refreshCount={refreshCount} />;
  if (here.page === "captures") return <CapturesPage refreshCount={refreshCount} />;
  if (here.page === "capture") return <CapturePage refreshCount={refreshCount} />;
  if (here.page === "settings") return <SettingsPage />;
  return <div class="card zero"><h1>{strings.noSuchPage}</h1><p><Link to={START}>{strings.showAllServices}</Link></p></div>;
}

function titleOf(here: Place): string {
  const service = here.service.slice(0, 80);
  const names = {
    services: strings.services, service, compare: strings.compareTitle(service), depth: strings.depthTitle(service), heatmap: strings.heatmapTitle(service),
    captures: strings.captures, capture: strings.captureTitle(here.capture.slice(0, 80)), settings: strings.settingsAndHelp, unknown: strings.noSuchPage,
  };
  return `${names[here.page]} · Sidelight`;
}
