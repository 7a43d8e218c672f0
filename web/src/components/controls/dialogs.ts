import { signal } from "../../lib/signals.ts";

/** What a capture starts with: a service, or one of a list that is offered; chosen pods; whether a sidecar is attached. */
export interface CaptureDraft {
  readonly service: string;
  readonly pods?: readonly string[];
  readonly attach?: boolean;
  /** Matchers on the labels of sidecars, such as a version. */
  readonly query?: string;
}

/** The capture that is being prepared, or null. */
export const captureDraft = signal<CaptureDraft | null>(null);

/** The text that the palette begins with, or null while it is closed. */
export const paletteText = signal<string | null>(null);

export function openCapture(draft: CaptureDraft): void {
  captureDraft.value = draft;
}

export function openPalette(text = ""): void {
  paletteText.value = text;
}
