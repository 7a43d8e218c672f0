"""The script of the SVG flame graph; the flame graph is complete without it.

The script handles mouse and keyboard. It redraws the boxes for the width of the browser window and for the
zoomed box, from the numbers of each box: `data-a` is its start, `data-n` its width, `data-l` its level. It
writes names only as text nodes.
"""

from typing import Final

STYLE: Final = """
text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #000000;
  white-space: pre; unicode-bidi: isolate; }
.head { font-weight: bold; font-size: 15px; }
#frames text { pointer-events: none; }
#frames rect { stroke: #ffffff; stroke-width: 0.5; }
#frames g.hit rect { stroke: #a3007c; stroke-width: 0.8; }
#frames g:hover rect, #frames g:focus rect { stroke: #000000; stroke-width: 1.5; }
#frames g:focus { outline: none; }
#frames.zooms g { cursor: pointer; }
#frames g.above rect { fill-opacity: 0.5; }
#frames.searched g:not(.hit) rect { fill: #dfe2e8; }
.tools { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; text-align: right; }
.tools input, .tools button { font: inherit; }
"""

SCRIPT: Final = """
(() => {
  const svg = document.currentScript ? document.currentScript.ownerSVGElement : document.documentElement;
  const frames = svg.querySelector("#frames"), at = svg.querySelector("#at"), SVG = svg.namespaceURI;
  const margin = +frames.dataset.margin, letter = +frames.dataset.letter;
  const high = +svg.getAttribute("height");
  const all = Array.from(frames.children, (g, index) => ({
    g, index, a: +g.dataset.a, n: +g.dataset.n, level: +g.dataset.l, rect: g.querySelector("rect"),
    text: g.querySelector("text"), told: g.querySelector("title").textContent,
  }));
  const path = [];
  for (const box of all) {
    box.name = box.told.slice(0, box.told.lastIndexOf("\\n"));
    path.length = box.level;
    box.parent = path[box.level - 1];
    path.push(box);
  }
  const root = all[0];
  let zoomed = root, current = root, wanted = "";

  const WIDE = /[\\u1100-\\u115f\\u2e80-\\ua4cf\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe30-\\ufe6f\\uff00-\\uff60]/;
  const cells = (letter) => (WIDE.test(letter) || letter.codePointAt(0) > 0x1f2ff ? 2 : 1);
  function cut(name, most) {
    if (name.length * 2 <= most) return name;
    let kept = "", used = 0;
    const letters = [...name], whole = letters.reduce((sum, letter) => sum + cells(letter), 0);
    if (whole <= most) return name;
    for (const letter of letters) {
      used += cells(letter);
      if (used > most - 1) break;
      kept += letter;
    }
    return most < 3 ? "" : kept + "\\u2026";
  }

  function draw() {
    const wide = Math.max(320, svg.clientWidth || 1200), inner = wide - 2 * margin;
    svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    const end = zoomed.a + zoomed.n, scale = inner / (zoomed.n || 1);
    for (const box of all) {
      const left = Math.max(box.a, zoomed.a), right = Math.min(box.a + box.n, end);
      const above = box.level < zoomed.level;
      const size = (right - left) * scale;
      const holds = box.a <= zoomed.a && box.a + box.n >= end;
      const shown = box === zoomed || (size >= 0.2 && (!above || holds));
      box.g.style.display = shown ? "" : "none";
      if (!shown) continue;
      box.g.classList.toggle("above", above);
      const x = margin + (left - zoomed.a) * scale;
      box.rect.setAttribute("x", x.toFixed(2));
      box.rect.setAttribute("width", Math.max(size, 0.2).toFixed(2));
      const label = cut(box.name, Math.floor((size - 6) / letter));
      if (label && !box.text) {
        box.text = box.g.appendChild(document.createElementNS(SVG, "text"));
        box.text.setAttribute("y", +box.rect.getAttribute("y") + 13);
      }
      if (box.text) {
        box.text.textContent = label;
        box.text.setAttribute("x", (x + 3).toFixed(2));
      }
    }
    tools.setAttribute("x", wide - margin - 420);
    whole.disabled = zoomed === root;
  }

  function zoom(box) {
    zoomed = box;
    draw();
    find(wanted);
    tell(box);
  }

  function tell(box) {
    at.textContent = box.told.replace(/\\n(?=[^\\n]*$)/, ": ");
  }

  function find(text) {
    wanted = text;
    let test = (name) => name.toLowerCase().includes(text.toLowerCase());
    if (text.length > 2 && text.startsWith("/") && text.endsWith("/")) {
      try {
        const pattern = new RegExp(text.slice(1, -1), "iu");
        test = (name) => pattern.test(name);
      } catch { /* an unfinished expression is searched for as it stands */ }
    }
    frames.classList.toggle("searched", text !== "");
    let matched = 0, until = zoomed.a, boxes = 0;
    for (const box of all) {
      const hit = text !== "" && box !== root && test(box.name);
      box.g.classList.toggle("hit", hit);
      const end = box.a + box.n;
      if (!hit || box.level < zoomed.level || box.a < zoomed.a || end > zoomed.a + zoomed.n) continue;
      boxes++;
      if (end > until) matched += end - Math.max(box.a, until);
      until = Math.max(until, end);
    }
    const share = (100 * matched / (zoomed.n || 1)).toFixed(1);
    found.textContent = text === "" ? "" : `${boxes} found, ${share} % `;
  }

  function focus(box) {
    if (!box) return;
    current.g.removeAttribute("tabindex");
    current = box;
    box.g.setAttribute("tabindex", "0");
    box.g.focus();
    tell(box);
  }

  function beside(box, step) {
    for (let i = box.index + step; i > 0 && i < all.length && all[i].level >= box.level; i += step)
      if (all[i].level === box.level && all[i].g.style.display !== "none") return all[i];
  }

  function heaviest(box) {
    let best;
    for (let i = box.index + 1; i < all.length && all[i].level > box.level; i++)
      if (all[i].level === box.level + 1 && (!best || all[i].n > best.n)) best = all[i];
    return best;
  }

  const XHTML = "http://www.w3.org/1999/xhtml";
  const make = (name, inside, properties) =>
    inside.appendChild(Object.assign(document.createElementNS(XHTML, name), properties));
  const tools = svg.insertBefore(document.createElementNS(SVG, "foreignObject"), frames);
  tools.setAttribute("y", "6");
  tools.setAttribute("width", "420");
  tools.setAttribute("height", "28");
  const bar = make("div", tools, { className: "tools" });
  const found = make("span", bar, { className: "found" });
  found.setAttribute("role", "status");
  const input = make("input", bar, { type: "search", size: 18, placeholder: "search, or /expression/" });
  input.setAttribute("aria-label", "Search frames");
  const whole = make("button", bar, { type: "button", textContent: "Whole graph" });
  input.addEventListener("input", () => find(input.value));
  whole.addEventListener("click", () => { zoom(root); focus(root); });

  const byGroup = new Map(all.map((box) => [box.g, box]));
  const boxOf = (event) => byGroup.get(event.target.closest("#frames > g"));
  frames.addEventListener("click", (event) => {
    const box = boxOf(event);
    if (box) { focus(box); zoom(box); }
  });
  frames.addEventListener("mouseover", (event) => { const box = boxOf(event); if (box) tell(box); });
  frames.addEventListener("mouseleave", () => { at.textContent = ""; });
  svg.addEventListener("keydown", (event) => {
    if (event.target === input) {
      if (event.key === "Escape") { input.value = ""; find(""); focus(current); }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = {
      ArrowUp: () => focus(current.parent), ArrowDown: () => focus(heaviest(current)),
      ArrowLeft: () => focus(beside(current, -1)), ArrowRight: () => focus(beside(current, 1)),
      Enter: () => zoom(current), Escape: () => zoom(root), "/": () => input.focus(),
    };
    if (event.target === whole || !moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  });
  svg.setAttribute("width", "100%");
  frames.classList.add("zooms");
  root.g.setAttribute("tabindex", "0");
  window.addEventListener("resize", draw);
  draw();
})();
"""
