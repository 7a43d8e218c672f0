import type { ComponentChildren } from "preact";

/** What went wrong, and what to do. */
export function Said({ message, hint, mild, children }: { message: string; hint: string; mild?: boolean; children?: ComponentChildren }) {
  return (
    <div class={mild ? "card" : "card trouble"} role="alert">
      <h2>{message}</h2>
      {hint !== "" && <p>{hint}</p>}
      {children}
    </div>
  );
}
