import { useEffect } from "preact/hooks";
import { change, place } from "../../lib/location.ts";
import { theme } from "../../lib/theme.ts";
import { START, onPage, type Page } from "../../lib/url.ts";
import { Link } from "../ui/Controls.tsx";
import { HelpDialog, openHelp } from "./HelpDialog.tsx";
import { RangePicker } from "./RangePicker.tsx";

/** The place, with the appearance a person chose kept and all else at its start. */
const homePlace = () => ({ ...START, theme: place.value.theme, keys: place.value.keys, from: place.value.from, until: place.value.until });

export function Header({ refresh }: { refresh: () => void }) {
  const here = place.value;
  const tab = (page: Page, text: string) => (
    <Link to={onPage(here, page)} current={here.page === page}>{text}</Link>
  );
  return (
    <header class="top">
      <Link to={homePlace()} class="brand"><Logo /> Sidelight</Link>
      <nav aria-label="Pages">
        <Link to={homePlace()} current={here.page === "services"}>Services</Link>
        <Link to={{ ...homePlace(), page: "captures" }} current={here.page === "captures" || here.page === "capture"}>Captures</Link>
        {here.service !== "" && (
          <>
            <span class="crumb" aria-hidden="true">/</span>
            <bdi class="crumb name" title={here.service}>{here.service}</bdi>
            {tab("service", "Profile")}
            {tab("compare", "Compare")}
            {tab("depth", "Depth")}
            {tab("heatmap", "Heatmap")}
          </>
        )}
      </nav>
      <div class="right">
        <RangePicker />
        <button type="button" onClick={refresh} title="Refresh the data">Refresh</button>
        <ThemeSwitch />
        <Link to={{ ...homePlace(), page: "settings" }} class="button square" current={here.page === "settings"} title="Settings and help"><span aria-hidden="true">⚙</span><span class="unseen">Settings and help</span></Link>
        <button type="button" class="square" onClick={openHelp} aria-label="Keyboard and help" title="Keyboard and help (?)">?</button>
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
    <button type="button" class="square" aria-label={`Use the ${other} theme`} title={`Use the ${other} theme`}
      onClick={() => change({ theme: other }, "replace")}>{current === "dark" ? "☀" : "☾"}</button>
  );
}
