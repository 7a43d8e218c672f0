import { useEffect } from "preact/hooks";
import { useAnswer } from "../api/answer.ts";
import { apiUrl } from "../api/ask.ts";
import { epoch, type StatusAnswer } from "../api/answers.ts";
import { change, place, PREFIX } from "../location.ts";
import { count, plural } from "../numbers.ts";
import { Trouble } from "../parts/basics.tsx";
import { CopyButton } from "../parts/copying.tsx";
import { rangeOf } from "../parts/range.tsx";
import { rangeName, zoned } from "../times.ts";

const POLL_MS = 3000;

/** The page before the first profile: what is up, what is missing, and how to send one. It polls. */
export function ZeroProfiles({ arrived }: { arrived: () => void }) {
  const status = useAnswer<StatusAnswer>(apiUrl("status"));
  const acknowledged = status.answer?.windows_acknowledged ?? 0;
  useEffect(() => {
    const timer = setInterval(() => {
      status.again();
      arrived();
    }, POLL_MS);
    return () => clearInterval(timer);
  }, []);
  if (status.failure && !status.answer) return <Trouble failure={status.failure} again={status.again} />;
  const answer = status.answer;
  const collector = window.location.origin + PREFIX.slice(0, -1);
  const range = rangeOf(place.value);
  return (
    <section class="card zero" aria-label="No profiles yet">
      <h2>{acknowledged > 0 ? `No profiles in this range (${rangeName(range)})` : "No profiles yet"}</h2>
      {acknowledged > 0 && (
        <p>This collector has acknowledged {plural(acknowledged, "window")}. <button type="button" class="primary" onClick={() => change({ from: "-30d", until: "now" })}>Look at the last 30 days</button></p>
      )}
      <div role="status"><ul class="checks">
        <Check ok={answer !== null} text={answer ? `collector answers (version ${answer.version})` : "asking the collector…"} />
        <Check ok={answer?.store.ok ?? false} text={answer ? (answer.store.ok ? `store is reachable (${answer.store.kind})` : `store (${answer.store.kind}) does not answer: look at the collector's log`) : "asking about the store…"} />
        <Check ok={(answer?.sidecars.length ?? 0) > 0} text={answer && answer.sidecars.length > 0 ? `${plural(answer.sidecars.length, "sidecar")} seen; the first profile arrives when its window ends` : "no sidecar seen yet"} />
        <Check ok={acknowledged > 0} text={`windows acknowledged: ${count(acknowledged)}; last: ${answer?.last_ingest ? zoned(epoch(answer.last_ingest)) : "never"}`} />
      </ul></div>
      <p class="quiet">This page looks again every {POLL_MS / 1000} seconds and shows services by itself.</p>
      <h3>Profile a running Python process</h3>
      <Command text={`sidelight sidecar --collector ${collector} --match myapp --service my-service --version 1.0`} />
      <h3>Or send what py-spy recorded</h3>
      <Command text={`py-spy record -f raw -r 100 -d 30 -o /tmp/profile.folded --pid PID && curl --data-binary @/tmp/profile.folded -H 'Content-Type: text/plain' '${collector}/api/v1/windows?service=my-service&version=1.0&rate=100'`} />
      <h3>Or look at four demo services</h3>
      <Command text="sidelight demo" />
    </section>
  );
}

function Check({ ok, text }: { ok: boolean; text: string }) {
  return <li class={ok ? "ok" : "not"}><span aria-hidden="true">{ok ? "✓" : "○"}</span> <span class="unseen">{ok ? "done: " : "waiting: "}</span>{text}</li>;
}

function Command({ text }: { text: string }) {
  return <div class="command"><pre tabIndex={0}><code>{text}</code></pre><CopyButton text={() => text} what="Command">Copy</CopyButton></div>;
}
