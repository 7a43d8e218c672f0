import { useEffect, useRef } from "preact/hooks";
import { signal } from "../../lib/signals.ts";
import * as strings from "../../strings/applicationStrings.ts";

const pendingText = signal<string | null>(null);
const announcement = signal("");
const ANNOUNCEMENT_MS = 2500;
let announcementTimer = 0;

function announce(message: string): void {
  // The timer of an earlier message must not take this one away.
  clearTimeout(announcementTimer);
  announcement.value = message;
  announcementTimer = window.setTimeout(() => (announcement.value = ""), ANNOUNCEMENT_MS);
}

/** Copies text; where the browser forbids that (no https), offers it selected in a box instead. */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announce(strings.copied(what));
  } catch {
    pendingText.value = text;
  }
}

export function CopyDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const text = pendingText.value;
  useEffect(() => {
    if (text === null) return;
    dialog.current?.showModal();
    box.current?.select();
  }, [text]);
  return (
    <>
      <div class="toast" role="status">{announcement.value}</div>
      {text !== null && (
        <dialog ref={dialog} aria-labelledby="copy-title" onClose={() => (pendingText.value = null)}>
          <h2 id="copy-title">{strings.copyText}</h2>
          <textarea ref={box} readOnly rows={6} aria-label={strings.textToCopy} value={text} />
          <form method="dialog"><button class="primary">{strings.close}</button></form>
        </dialog>
      )}
    </>
  );
}

export function CopyButton({ text, what, title, children }: { text: () => string; what: string; title?: string; children: string }) {
  return <button type="button" title={title} onClick={() => void copy(text(), what)}>{children}</button>;
}
