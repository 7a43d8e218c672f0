import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { FunctionsAnswer, ServicesAnswer, ValuesAnswer } from "../../api/answers.ts";
import { favourites, saveView, savedViews } from "../../viewmodels/browserStorage.ts";
import { change, place, visit } from "../../lib/location.ts";
import { selectorOf } from "../../lib/selectors.ts";
import { theme } from "../../lib/theme.ts";
import { formatPlace } from "../../lib/url.ts";
import { paletteItems, parseCommand, serviceInText, type PaletteAction, type PaletteItem } from "../../viewmodels/paletteItems.ts";
import { openCapture, paletteText } from "../controls/dialogs.ts";
import { absolutePath } from "../controls/Exports.tsx";
import { sharedView } from "../controls/sharedView.ts";
import { openHelp } from "../controls/HelpDialog.tsx";
import * as strings from "../../strings/paletteStrings.ts";

const TYPING_MS = 400;
const LATELY = { from: "-7d", until: "now" };

/** The palette: what is typed is looked for in services, versions, functions, pages, ranges, saved views and actions. */
export function Palette({ text, refresh }: { text: string; refresh: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState(text);
  const [active, setActive] = useState(0);
  const paused = usePausedText(typed);
  const here = place.value;
  const services = useAnswer<ValuesAnswer>(apiUrl("labels/service/values", LATELY));
  const names = services.answer?.values ?? [];
  const service = serviceInText(typed, names, here);
  const versions = useAnswer<ServicesAnswer>(service === "" ? null : apiUrl("services", { query: selectorOf(service, ""), ...LATELY }));
  const isCommand = parseCommand(typed).name !== "" || typed.endsWith(" ");
  const functions = useAnswer<FunctionsAnswer>(isCommand || paused.length < 3 ? null : apiUrl("functions", { search: paused, by: "total", limit: "8", from: "-1h", until: "now" }));
  useLayoutEffect(() => { dialog.current?.showModal(); }, []);
  useEffect(() => setActive(0), [typed]);
  const items = paletteItems(typed, {
    here, services: names, favourites: favourites.list.value, versions: versions.answer?.services[0]?.versions.map((one) => one.version).filter((one) => one !== "") ?? [],
    functions: functions.isCurrent && functions.answer?.search === paused ? functions.answer : null, views: savedViews.list.value, canPin: here.page === "compare" && sharedView.value?.sides?.length === 2, now: Date.now() / 1000,
  });
  const close = () => dialog.current?.close();
  const choose = (item: PaletteItem) => {
    close();
    if (item.to) visit(item.to);
    else if (item.action) act(item.action, refresh);
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && items.length > 0) {
      setActive((active + step + items.length) % items.length);
      document.getElementById(`palette-${(active + step + items.length) % items.length}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && items[active]) choose(items[active]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" aria-label={strings.title} onClose={() => { paletteText.value = null; }} onClick={(event) => { if (event.target === dialog.current) close(); }}>
      <input role="combobox" aria-label={strings.title} aria-expanded={items.length > 0} aria-controls="palette-items" aria-autocomplete="list" aria-activedescendant={items.length > 0 ? `palette-${active}` : undefined}
        value={typed} placeholder={strings.placeholder} spellcheck={false} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} onKeyDown={press} />
      <ul id="palette-items" role="listbox" aria-label={strings.results}>
        {items.map((item, at) => (
          <li key={item.id} id={`palette-${at}`} role="option" aria-selected={at === active} onPointerMove={() => setActive(at)} onClick={() => choose(item)}>
            <span class="kind">{item.kind}</span> <bdi>{item.text.slice(0, 200)}</bdi> {item.detail && <span class="detail"><bdi>{item.detail.slice(-120)}</bdi></span>}
          </li>
        ))}
      </ul>
      <p class="quiet" role="status">{functions.loading && functions.answer === null && paused.length >= 3 && !isCommand ? strings.searching : items.length === 0 ? strings.nothingFound : strings.hint}</p>
    </dialog>
  );
}

/** A text once typing has paused. */
function usePausedText(text: string): string {
  const [paused, setPaused] = useState(text.trim());
  useEffect(() => {
    const timer = setTimeout(() => setPaused(text.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return paused;
}

function act(action: PaletteAction, refresh: () => void): void {
  const here = place.peek();
  if (action === "theme") change({ theme: theme.peek() === "dark" ? "light" : "dark" }, "replace");
  else if (action === "utc") change({ utc: !here.utc }, "replace");
  else if (action === "refresh") refresh();
  else if (action === "help") openHelp();
  else if ("capture" in action) openCapture({ service: action.capture });
  else saveView({ name: action.save.slice(0, 100), path: action.isPinned ? absolutePath(sharedView.peek()?.sides ?? null) : formatPlace(here) });
}
