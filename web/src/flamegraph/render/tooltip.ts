import type { Description } from "../analysis/frameDescription.ts";
import * as strings from "../../strings/frameStrings.ts";

/** What a pointer over a frame shows. Names come from anywhere: they are set as text only. */
export class Tooltip {
  readonly element = document.createElement("div");

  /** `canStay`: whether a key keeps it, with its links. */
  constructor(private readonly canStay: boolean) {
    this.element.className = "flame-tooltip";
    this.element.hidden = true;
    // The line under the graph says the same to those who cannot point.
    this.element.setAttribute("aria-hidden", "true");
  }

  show({ title, rows }: Description): void {
    const heading = document.createElement("strong");
    heading.textContent = title;
    const list = document.createElement("dl");
    for (const [name, value] of rows) {
      const term = document.createElement("dt");
      term.textContent = name;
      const meaning = document.createElement("dd");
      meaning.textContent = value;
      list.append(term, meaning);
    }
    const hint = document.createElement("p");
    hint.textContent = strings.keepTooltipHint;
    this.element.replaceChildren(heading, list, ...(this.canStay ? [hint] : []));
  }

  /** Beside the pointer, on the side where there is room. */
  placeBy({ clientX, clientY }: PointerEvent): void {
    this.element.hidden = false;
    const { offsetWidth, offsetHeight } = this.element;
    const left = clientX + 14 + offsetWidth > window.innerWidth ? clientX - 14 - offsetWidth : clientX + 14;
    const top = clientY + 18 + offsetHeight > window.innerHeight ? clientY - 18 - offsetHeight : clientY + 18;
    this.element.style.left = `${Math.max(left, 4)}px`;
    this.element.style.top = `${Math.max(top, 4)}px`;
  }

  /** Where it is on the screen; null while it is hidden. */
  place(): { x: number; y: number } | null {
    const { left, top } = this.element.getBoundingClientRect();
    return this.element.hidden ? null : { x: left, y: top };
  }

  hide(): void {
    this.element.hidden = true;
  }
}
