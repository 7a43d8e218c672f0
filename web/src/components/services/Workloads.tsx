import { useEffect } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import type { Workload, WorkloadsAnswer } from "../../api/answers.ts";
import { apiUrl } from "../../api/request.ts";
import { plural } from "../../lib/numbers.ts";
import { equals } from "../../lib/selectors.ts";
import { clock } from "../../lib/times.ts";
import { Table } from "../ui/Table.tsx";
import { Notices } from "../answer/Notices.tsx";

const MOST_SAID = 3;

/** How pods lack a profile: "2 of 6 pods have no sidecar, 1 is stale"; empty when none does. */
export function lack({ pod_counts: pods, profiling_expected: expected }: Workload): string {
  const words = ([["no_sidecar", "without a sidecar"], ["dead", "with one that does not run"], ["stale", "with one that says nothing"]] as const)
    .flatMap(([status, said]) => (pods[status] > 0 ? [`${pods[status]} ${said}`] : []));
  return expected && words.length > 0 ? `${words.join(", ")}, of ${plural(pods.total, "pod")}` : "";
}

function useWorkloads(service: string, turn: number): WorkloadsAnswer | null {
  const scope: Record<string, string> = service === "" ? { unprofiled: "1", limit: "50", pods: "1" } : { query: equals("service", service), pods: "200" };
  const asked = useAnswer<WorkloadsAnswer>(apiUrl("workloads", scope));
  useEffect(() => { if (turn > 0) asked.again(); }, [turn]);
  // An older collector knows nothing of it, and pages do without.
  return asked.answer;
}

/** Why the cluster is not seen, where it should be. */
const blind = ({ discovery: { state, problem, hint } }: WorkloadsAnswer) =>
  (problem !== "" && state !== "off" ? [`${problem}: pods without a sidecar may not be seen. ${hint}`] : []);

/** Which workloads have pods that nobody profiles, and what to do. */
export function LackingPods({ turn }: { turn: number }) {
  const answer = useWorkloads("", turn);
  if (!answer) return null;
  const said = answer.workloads.slice(0, MOST_SAID).map((one) => `${one.service} (${one.namespace}): ${lack(one)}. ${one.pods[0]?.hint ?? ""}`);
  const more = answer.total - said.length;
  return <Notices said={[...blind(answer), ...said, ...(more > 0 ? [`${plural(more, "more workload")} with such pods: GET /api/v1/workloads?unprofiled=1 lists them.`] : [])]} />;
}

/** Where the pods of a service stand; nothing where no cluster is seen. */
export function Pods({ service, turn }: { service: string; turn: number }) {
  const answer = useWorkloads(service, turn);
  if (!answer) return null;
  const found = answer.workloads;
  const lacking = found.flatMap((one) => lack(one) || []);
  return (
    <>
      <Notices said={blind(answer)} />
      {found.length > 0 && (
        <details class="numbers pods">
          <summary>{lacking.length > 0 ? `⚠ ${lacking.join("; ")}` : plural(found.reduce((sum, { pod_counts: { total } }) => sum + total, 0), "pod")}</summary>
          <Table label="Table of pods" looks="short" heads={["Pod", "Workload", "Version", "Stands", "What to do"]}>
            {found.flatMap((one) => one.pods.map((pod) => (
              <tr key={`${one.namespace} ${pod.pod}`}>
                <th scope="row"><bdi>{pod.pod}</bdi></th>
                <td><bdi>{one.namespace}/{one.workload}</bdi></td>
                <td><bdi>{pod.version}</bdi></td>
                <td>{pod.problem === "" ? pod.status : `⚠ ${pod.problem}`}</td>
                <td>{pod.hint}</td>
              </tr>
            )))}
          </Table>
          {found.flatMap((one) => one.rollouts.map(({ revision, version, started, ended }) => (
            <p key={one.workload + revision} class="quiet"><bdi>{one.workload}</bdi> revision {revision} (<bdi>{version}</bdi>): rolled out from {clock(started)}{ended === null ? "" : ` to ${clock(ended)}`}</p>
          )))}
        </details>
      )}
    </>
  );
}
