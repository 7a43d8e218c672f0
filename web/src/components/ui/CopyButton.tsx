import { useEffect, useRef } from "preact/hooks";
import { signal } from "../../lib/signals.ts";
import * as strings from "../../strings/applicationStrings.ts";

const pendingText = signal<string | null>(null);
const announcement = signal("");

/** Copies text; where the browser forbids that (no https), offers it selected in a box instead. */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announcement.value = strings.copied(what);
  } catch {
    pendingText.value = text;
  }
}

export function CopyDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const text = pendingText.value;
  const message = announcement.value;
  useEffect(() => {
    if (text === null) return;
    dialog.current?.showModal();
    box.current?.select();
  }, [text]);
  useEffect(() => {
    if (message === "") return undefined;
    const timer = setTimeout(() => (announcement.value = ""), 2500);
    return () => clearTimeout(timer);
  }, [message]);
  return (
    <>
      <div class="toast" role="status">{message}</div>
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
