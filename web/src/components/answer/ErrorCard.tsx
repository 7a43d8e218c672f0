import type { ComponentChildren } from "preact";
import { inShownZone } from "../../lib/times.ts";

/** An error message with a hint. */
export function ErrorCard({ message, hint, isWarning, children }: { message: string; hint: string; isWarning?: boolean; children?: ComponentChildren }) {
  return (
    <div class={isWarning ? "card" : "card trouble"} role="alert">
      <h2>{inShownZone(message.charAt(0).toUpperCase() + message.slice(1))}</h2>
      {hint !== "" && <p>{hint}</p>}
      {children}
    </div>
  );
}
