import { useEffect } from "preact/hooks";
import { change, place } from "../../lib/location.ts";
import { theme } from "../../lib/theme.ts";
import { appearanceOf, onPage, pageRange, START, type Page, type Place } from "../../lib/url.ts";
import { Link } from "../ui/Controls.tsx";
import { Dropdown } from "../ui/Dropdown.tsx";
import { Toolbar } from "../ui/Toolbar.tsx";
import { ComparisonExports, Exports, Share } from "./Exports.tsx";
import { Filters, TypePicker } from "./Filters.tsx";
import { HelpDialog, openHelp } from "./HelpDialog.tsx";
import { openCapture, openPalette } from "./dialogs.ts";
import { RangePicker } from "./RangePicker.tsx";
import { sharedView } from "./sharedView.ts";
import * as strings from "../../strings/applicationStrings.ts";

/** The place, with the appearance a person chose kept and all else at its start. */
const homePlace = () => ({ ...START, ...appearanceOf(place.value), from: place.value.from, until: place.value.until });

/** Pages of no service that are about a time range. */
const RANGED_PAGES: readonly Page[] = ["services", "functions"];
const SERVICE_PAGES: readonly Page[] = ["service", "compare", "depth", "heatmap"];

/** The one bar of every page: where one is, what is shown, of which time, and what can be done with it. */
export function Header({ refresh }: { refresh: () => void }) {
  const here = place.value;
  const isOfService = SERVICE_PAGES.includes(here.page) && here.service !== "";
  return (
    <header class="top">
      <Link to={homePlace()} class="brand"><Logo />{" "}{isOfService ? strings.services : strings.sidelight}</Link>
      {isOfService ? <ServiceLinks here={here} /> : (
        <nav aria-label={strings.pages}>
          <Link to={homePlace()} current={here.page === "services"}>{strings.services}</Link>
          <Link to={{ ...homePlace(), page: "fleet" }} current={here.page === "fleet"}>{strings.coverage}</Link>
          <Link to={{ ...homePlace(), page: "functions" }} current={here.page === "functions"}>{strings.functions}</Link>
          <Link to={{ ...homePlace(), page: "captures" }} current={here.page === "captures" || here.page === "capture"}>{strings.captures}</Link>
        </nav>
      )}
      {isOfService && <div class="controls"><TypePicker /><Filters range={pageRange(here)} /></div>}
      <Toolbar label={strings.viewTools} class="right">
        {!isOfService && <button type="button" onClick={() => openPalette()} title={strings.paletteHint}>{strings.find} <kbd>Ctrl K</kbd></button>}
        {(isOfService || RANGED_PAGES.includes(here.page)) && <RangePicker />}
        {here.page !== "files" && here.page !== "settings" && here.page !== "unknown" && <button type="button" class="square" onClick={refresh} aria-label={strings.refresh} title={strings.refreshData}>⟳</button>}
        {here.page !== "captures" && <button type="button" onClick={() => openCapture({ service: isOfService ? here.service : "" })} title={strings.captureHint}>{strings.captureAction}</button>}
        <ViewActions />
        <Dropdown text="⋯" label={strings.moreMenu} class="appearance">
          <button type="button" onClick={() => openPalette()}>{strings.findWithKey}</button>
          {isOfService && <button type="button" onClick={() => openPalette(strings.saveViewCommand)}>{strings.saveView}</button>}
          {here.page === "compare" && <button type="button" onClick={() => openPalette(strings.pinComparisonCommand)} title={strings.pinComparisonHint}>{strings.pinComparison}</button>}
          <button type="button" onClick={() => change({ utc: !here.utc }, "replace")}>{here.utc ? strings.useLocalTime : strings.useUtc}</button>
          <ThemeSwitch />
          <Link to={{ ...homePlace(), page: "files" }} current={here.page === "files"}>{strings.files}</Link>
          <Link to={{ ...homePlace(), page: "settings" }} current={here.page === "settings"}>{strings.settingsAndHelp}</Link>
          <button type="button" onClick={openHelp} title={strings.keyboardAndHelpHint}>{strings.keyboardAndHelp}</button>
        </Dropdown>
      </Toolbar>
      <HelpDialog />
    </header>
  );
}

/** The service, and the pages about it. */
function ServiceLinks({ here }: { here: Place }) {
  const tab = (page: Page, text: string, changes: Partial<Place> = {}) => <Link to={onPage(here, page, changes)} current={here.page === page}>{text}</Link>;
  return (
    <nav aria-label={strings.pages}>
      <Toolbar label={strings.pagesOfService} class="pages">
      <span class="crumb" aria-hidden="true">/</span>
      <button type="button" class="crumb name" title={here.service} aria-label={strings.switchService(here.service.slice(0, 80))} onClick={() => openPalette("service ")}><bdi>{here.service}</bdi> ▾</button>
      {tab("service", strings.profile)}
      {tab("compare", strings.compare)}
      {tab("depth", strings.depth, here.page === "depth" ? {} : { focus: here.focus })}
      {tab("heatmap", strings.podsTab)}
      </Toolbar>
    </nav>
  );
}

/** Sharing and exporting of what the page shows. */
function ViewActions() {
  const view = sharedView.value;
  if (!view) return null;
  const { query, sides, nodeCount } = view;
  const { service } = place.value;
  return (
    <>
      <Share query={query} sides={sides} />
      {nodeCount !== null && sides && (sides.length === 2 ? <ComparisonExports sides={sides} query={query} name={service} /> : <Exports side={sides[0]} name={service} nodeCount={nodeCount} />)}
    </>
  );
}

const Logo = () => (
  <svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
    <rect x="1" y="2" width="18" height="4" rx="1" class="mark-a" />
    <rect x="1" y="8" width="12" height="4" rx="1" class="mark-b" />
    <rect x="1" y="14" width="6" height="4" rx="1" class="mark-c" />
  </svg>
);

function ThemeSwitch() {
  const current = theme.value;
  const other = current === "dark" ? "light" : "dark";
  useEffect(() => {
    document.documentElement.dataset.theme = current;
  }, [current]);
  return <button type="button" onClick={() => change({ theme: other }, "replace")}>{strings.useTheme(other)}</button>;
}
