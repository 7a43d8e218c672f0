import { useEffect, useState } from "preact/hooks";
import { place } from "./lib/location.ts";
import { Copying } from "./components/ui/CopyButton.tsx";
import { Header } from "./components/controls/Header.tsx";
import { openHelp } from "./components/controls/HelpDialog.tsx";
import { useKeys } from "./components/ui/useKeys.ts";
import { Link } from "./components/ui/Controls.tsx";
import { Connection } from "./components/answer/Loading.tsx";
import { Capture } from "./pages/CapturePage.tsx";
import { Captures } from "./pages/CapturesPage.tsx";
import { Compare } from "./pages/ComparePage.tsx";
import { Depth } from "./pages/DepthPage.tsx";
import { Heatmap } from "./pages/HeatmapPage.tsx";
import { Service } from "./pages/ServicePage.tsx";
import { Services } from "./pages/ServicesPage.tsx";
import { Settings } from "./pages/SettingsPage.tsx";
import { START, type Place } from "./lib/url.ts";

/** `turn` counts the presses of Refresh: a page asks again when it grows. */
export function App() {
  const [turn, next] = useState(0);
  const here = place.value;
  useEffect(() => {
    document.title = titleOf(here);
  }, [here.page, here.service]);
  useKeys({ "?": openHelp });
  return (
    <>
      <a class="skip" href="#main">Skip to content</a>
      <Header refresh={() => next((now) => now + 1)} />
      <Connection />
      <main id="main" tabIndex={-1}><Page here={here} turn={turn} key={`${here.page} ${here.service}`} /></main>
      <Copying />
    </>
  );
}

function Page({ here, turn }: { here: Place; turn: number }) {
  if (here.page === "services") return <Services turn={turn} />;
  if (here.page === "service") return <Service turn={turn} />;
  if (here.page === "compare") return <Compare turn={turn} />;
  if (here.page === "depth") return <Depth turn={turn} />;
  if (here.page === "heatmap") return <Heatmap turn={turn} />;
  if (here.page === "captures") return <Captures turn={turn} />;
  if (here.page === "capture") return <Capture turn={turn} />;
  if (here.page === "settings") return <Settings />;
  return <div class="card zero"><h1>No such page</h1><p><Link to={START}>See the services</Link></p></div>;
}

function titleOf(here: Place): string {
  const service = here.service.slice(0, 80);
  const names = {
    services: "Services", service, compare: `Compare ${service}`, depth: `Stack depth of ${service}`, heatmap: `Heatmap of ${service}`,
    captures: "Captures", capture: `Capture ${here.capture.slice(0, 80)}`, settings: "Settings and help", unknown: "No such page",
  };
  return `${names[here.page]} · Sidelight`;
}
