import { useEffect } from "preact/hooks";
import { change, place } from "../../lib/location.ts";
import { theme } from "../../lib/theme.ts";
import { START, onPage, type Page } from "../../lib/url.ts";
import { Link } from "../ui/Controls.tsx";
import { HelpDialog, openHelp } from "./HelpDialog.tsx";
import { RangePicker } from "./RangePicker.tsx";
import * as strings from "../../strings/applicationStrings.ts";

/** The place, with the appearance a person chose kept and all else at its start. */
const homePlace = () => ({ ...START, theme: place.value.theme, keys: place.value.keys, from: place.value.from, until: place.value.until });

export function Header({ refresh }: { refresh: () => void }) {
  const here = place.value;
  const tab = (page: Page, text: string) => (
    <Link to={onPage(here, page)} current={here.page === page}>{text}</Link>
  );
  return (
    <header class="top">
      <Link to={homePlace()} class="brand"><Logo />{" "}{strings.sidelight}</Link>
      <nav aria-label={strings.pages}>
        <Link to={homePlace()} current={here.page === "services"}>{strings.services}</Link>
        <Link to={{ ...homePlace(), page: "captures" }} current={here.page === "captures" || here.page === "capture"}>{strings.captures}</Link>
        {here.service !== "" && (
          <>
            <span class="crumb" aria-hidden="true">/</span>
            <bdi class="crumb name" title={here.service}>{here.service}</bdi>
            {tab("service", strings.profile)}
            {tab("compare", strings.compare)}
            {tab("depth", strings.depth)}
            {tab("heatmap", strings.heatmap)}
          </>
        )}
      </nav>
      <div class="right">
        <RangePicker />
        <button type="button" onClick={refresh} title={strings.refreshData}>{strings.refresh}</button>
        <ThemeSwitch />
        <Link to={{ ...homePlace(), page: "settings" }} class="button square" current={here.page === "settings"} title={strings.settingsAndHelp}><span aria-hidden="true">⚙</span><span class="unseen">{strings.settingsAndHelp}</span></Link>
        <button type="button" class="square" onClick={openHelp} aria-label={strings.keyboardAndHelp} title={strings.keyboardAndHelpHint}>?</button>
      </div>
      <HelpDialog />
    </header>
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
  return (
    <button type="button" class="square" aria-label={strings.useTheme(other)} title={strings.useTheme(other)}
      onClick={() => change({ theme: other }, "replace")}>{current === "dark" ? "☀" : "☾"}</button>
  );
}
