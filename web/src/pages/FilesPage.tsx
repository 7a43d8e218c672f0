import { useEffect, useRef, useState } from "preact/hooks";
import { Failure } from "../api/request.ts";
import type { FlameAnswer } from "../api/answers.ts";
import { change, place } from "../lib/location.ts";
import { addFiles, chosenFiles, pastedFile, sendFiles } from "../api/profileFiles.ts";
import { BASIS_NAMES } from "../viewmodels/verdictText.ts";
import { ErrorCard } from "../components/answer/ErrorCard.tsx";
import { PrunedNotice } from "../components/answer/PrunedNotice.tsx";
import { useFileDrop } from "../components/controls/useFileDrop.ts";
import { Dropdown } from "../components/ui/Dropdown.tsx";
import { useKeys } from "../components/ui/useKeys.ts";
import { LinkGroup, Toolbar } from "../components/ui/Toolbar.tsx";
import { ChecksButton } from "../components/verdict/ComparabilityChecks.tsx";
import { CulpritTable } from "../components/verdict/CulpritTable.tsx";
import { SecondaryEffects } from "../components/verdict/SecondaryEffects.tsx";
import { VerdictReasons } from "../components/verdict/VerdictCard.tsx";
import { ComparisonControls } from "../components/profile/ComparisonControls.tsx";
import { ProfileControls } from "../components/profile/ProfileControls.tsx";
import { ProfileView } from "../components/profile/ProfileView.tsx";
import * as strings from "../strings/offlineStrings.tsx";

type Outcome = { readonly answer: FlameAnswer } | { readonly failure: Failure } | null;

/** The flame graph of a file that was dropped, chosen or pasted, or the comparison of two. */
export function FilesPage() {
  const files = chosenFiles.value;
  const { by, nodes, view } = place.value;
  const outcome = useFiles(files, nodes, by === "line");
  const take = (more: readonly File[]) => { chosenFiles.value = addFiles(chosenFiles.peek(), more); };
  const swap = () => { chosenFiles.value = [...chosenFiles.peek()].reverse(); };
  useFileDrop(take);
  usePaste((text) => take([pastedFile(text, strings.pastedText)]));
  useKeys(files.length === 2 ? { x: swap } : {});
  // The lines of one function and groups of pods are the collector's: a file has neither.
  useEffect(() => { if (view === "lines" || view === "breakdown") change({ view: "flame" }, "replace"); }, [view]);
  return (
    <div class={files.length === 2 ? "compare fill" : "fill"}>
      <h1 class="unseen">{strings.profileFiles}</h1>
      {files.length === 0 ? <Invitation take={take} /> : (
        <Toolbar class="comparebar" label={strings.fileTools}>
          {files.map((file, at) => <span key={at}>{files.length === 2 && <><span class={`side side-${"ab"[at]}`}>{"AB"[at]}</span>{" "}</>}<bdi>{file.name.slice(0, 80)}</bdi></span>)}
          {files.length === 2 && <button type="button" onClick={swap} title={strings.swapSidesHint} aria-label={strings.swapSides}>⇄</button>}
          <FileButton take={take}>{files.length === 1 ? strings.addFile : strings.chooseFiles}</FileButton>
          <button type="button" onClick={() => { chosenFiles.value = []; }}>{strings.closeFiles}</button>
        </Toolbar>
      )}
      {files.length > 0 && outcome === null && <p class="card waiting" role="status">{strings.readingFiles(files.map(({ name }) => name.slice(0, 80)).join(", "))}</p>}
      {outcome && "failure" in outcome && <ErrorCard message={outcome.failure.message} hint={outcome.failure.hint} />}
      {outcome && "answer" in outcome && <FileAnswer answer={outcome.answer} />}
    </div>
  );
}

function Invitation({ take }: { take: (files: readonly File[]) => void }) {
  return (
    <section class="card zero" aria-label={strings.profileFiles}>
      <h2>{strings.howToChoose}</h2>
      <p>{strings.formats}</p>
      <p><FileButton take={take} isPrimary>{strings.chooseFiles}</FileButton></p>
      <p class="quiet">{strings.notStored}</p>
    </section>
  );
}

/** A button that opens the dialog for files. */
function FileButton({ take, isPrimary = false, children }: { take: (files: readonly File[]) => void; isPrimary?: boolean; children: string }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" class={isPrimary ? "primary" : ""} onClick={() => input.current?.click()}>{children}</button>
      <input ref={input} type="file" multiple hidden aria-label={strings.profileFile} onChange={(event) => {
        const files = [...(event.currentTarget.files ?? [])];
        event.currentTarget.value = "";
        if (files.length > 0) take(files);
      }} />
    </>
  );
}

function FileAnswer({ answer }: { answer: FlameAnswer }) {
  const verdict = answer.verdict ?? null;
  const names = answer.sides.length === 2 ? answer.sides.map((side, at) => `${"AB"[at]} ${side.selector.slice(0, 60)}`) : [""];
  const damaged = (answer.files ?? []).filter(({ damaged_parts: parts }) => parts > 0);
  useEffect(() => change({ type: answer.type as typeof place.value.type }, "replace"), [answer]);
  return (
    <>
      {verdict && (
        <>
          <section class="card finding" aria-label={strings.verdict}><div class="row">
            <p class="verdict" role="status">{verdict.summary}</p>
            <Toolbar class="grow" label={strings.fileTools}>
              <span>{BASIS_NAMES[verdict.basis]}</span>
              <Dropdown isText text={strings.whyMenu} label={strings.whyAndHowSure}><VerdictReasons verdict={verdict} /></Dropdown>
              <span class="gap" />
              <ChecksButton verdict={verdict} notices={[]} isOffline />
            </Toolbar>
          </div></section>
          <LinkGroup><CulpritTable verdict={verdict} /><SecondaryEffects verdict={verdict} isOffline /></LinkGroup>
        </>
      )}
      {damaged.map(({ name, damaged_parts: parts }) => <p key={name} class="notices single">{strings.damagedParts(name.slice(0, 80), parts)}</p>)}
      {answer.sides.every(({ samples }) => samples === 0)
        ? <div class="card zero"><h2>{strings.noSamples}</h2></div>
        : <ProfileView answer={answer} names={names} controls={verdict ? <ComparisonControls verdict={verdict} isOffline /> : <ProfileControls isOffline />} />}
      <PrunedNotice pruned={answer.pruned} />
    </>
  );
}

/** Sends the files again whenever they, or what is drawn of them, change. The last answer that arrives late is dropped. */
function useFiles(files: readonly File[], nodes: string, withLines: boolean): Outcome {
  const [outcome, setOutcome] = useState<Outcome>(null);
  useEffect(() => {
    setOutcome(null);
    if (files.length === 0) return undefined;
    const abort = new AbortController();
    sendFiles(files, nodes, withLines, abort.signal).then(
      (answer) => setOutcome({ answer }),
      (error: unknown) => { if (!abort.signal.aborted) setOutcome({ failure: error instanceof Failure ? error : new Failure("unreachable", strings.noAnswer, strings.perhapsUnreadable) }); },
    );
    return () => abort.abort();
  }, [files, nodes, withLines]);
  return outcome;
}

/** Calls `take` with text that is pasted outside of fields. */
function usePaste(take: (text: string) => void): void {
  useEffect(() => {
    const paste = (event: ClipboardEvent) => {
      const text = event.clipboardData?.getData("text/plain") ?? "";
      if (text.trim() === "" || (event.target as Element | null)?.closest?.("input, textarea")) return;
      event.preventDefault();
      take(text);
    };
    document.addEventListener("paste", paste);
    return () => document.removeEventListener("paste", paste);
  });
}
