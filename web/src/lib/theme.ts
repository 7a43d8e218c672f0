import { place } from "./location.ts";
import { computed, signal } from "./signals.ts";

const system = window.matchMedia("(prefers-color-scheme: dark)");
const dark = signal(system.matches);
system.addEventListener("change", () => (dark.value = system.matches));

/** The theme in force: the address's, or the system's as it changes. */
export const theme = computed<"light" | "dark", "light" | "dark">(() => place.value.theme || (dark.value ? "dark" : "light"), (shown) => shown);
