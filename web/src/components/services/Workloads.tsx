import { useEffect } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import type { Workload, WorkloadsAnswer } from "../../api/answers.ts";
import { apiUrl } from "../../api/request.ts";
import { equals } from "../../lib/selectors.ts";
import { formatClock } from "../../lib/times.ts";
import { openCapture } from "../controls/dialogs.ts";
import { annotatedSource } from "../controls/SourceLink.tsx";
import { Dropdown } from "../ui/Dropdown.tsx";
import { Table } from "../ui/Table.tsx";
import { Notices } from "../answer/Notices.tsx";
import * as strings from "../../strings/serviceStrings.tsx";

/** Unprofiled pods: "2/6 pods: no sidecar, 1/6 pods: sidecar stale"; empty if all are profiled. */
export function describeMissing({ pod_counts: pods, profiling_expected: expected }: Workload): string {
  const counts = ([["no_sidecar", strings.noSidecar], ["dead", strings.sidecarNotRunning], ["stale", strings.sidecarStale]] as const)
    .flatMap(([status, text]) => (pods[status] > 0 ? [strings.podsWithProblem(pods[status], pods.total, text)] : []));
  return expected && counts.length > 0 ? counts.join(", ") : "";
}

/** Workloads with unprofiled pods, or those of one service; null until they are known. */
export function useWorkloads(service: string, refreshCount: number): WorkloadsAnswer | null {
  const scope: Record<string, string> = service === "" ? { unprofiled: "1", limit: "3", pods: "1" } : { query: equals("service", service), pods: "200" };
  const request = useAnswer<WorkloadsAnswer>(apiUrl("workloads", scope));
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  useEffect(() => {
    if (service !== "" && request.answer) annotatedSource.value = { service, url: request.answer.workloads.find(({ source_url: url }) => url)?.source_url ?? "" };
  }, [service, request.answer]);
  // An older collector knows nothing of it, and pages do without.
  return request.answer;
}

/** Why discovery does not see the cluster. */
const discoveryProblems = ({ discovery: { state, problem, hint } }: WorkloadsAnswer) =>
  (problem !== "" && state !== "off" ? [strings.discoveryProblem(problem, hint)] : []);

/** Why discovery does not see the cluster; nothing while it does. */
export function DiscoveryNotices({ workloads }: { workloads: WorkloadsAnswer | null }) {
  return workloads && <Notices notices={discoveryProblems(workloads)} />;
}

/** Where the pods of a service stand; nothing where no cluster is seen. */
export function ServicePods({ service, refreshCount }: { service: string; refreshCount: number }) {
  const answer = useWorkloads(service, refreshCount);
  if (!answer) return null;
  const workloads = answer.workloads;
  const problems = discoveryProblems(answer);
  const missing = workloads.flatMap((workload) => describeMissing(workload) || []);
  return (
    <>
      {workloads.length === 0 && problems.length > 0 && <Dropdown isText text={strings.discoveryProblems(problems.length)}><Notices notices={problems} /></Dropdown>}
      {workloads.length > 0 && (
        <Dropdown isText class="pods wide-choices" text={missing.length + problems.length > 0 ? `⚠ ${missing.join("; ") || strings.discoveryProblems(problems.length)} ▾` : `${strings.podCount(workloads.reduce((sum, { pod_counts: { total } }) => sum + total, 0))} ▾`}>
          <Notices notices={problems} />
          <Table label={strings.tableOfPods} className="short cards" heads={[strings.podHeading, strings.workload, strings.version, strings.status, strings.whatToDo]}>
            {workloads.flatMap((workload) => workload.pods.map((pod) => (
              <tr key={`${workload.namespace} ${pod.pod}`}>
                <th scope="row"><bdi>{pod.pod}</bdi></th>
                <td><bdi>{workload.namespace}/{workload.workload}</bdi></td>
                <td><bdi>{pod.version}</bdi></td>
                <td>{pod.problem === "" ? strings.podStatus(pod.status, pod.covered_by) : `⚠ ${pod.problem}`}</td>
                <td>{pod.hint}{pod.status !== "finished" && (pod.status !== "no_sidecar" || pod.attachable) && <>{" "}<button type="button" class="flat" onClick={() => openCapture({ service, pods: [pod.pod], attach: pod.status === "no_sidecar" })}>{strings.capture}<span class="unseen">{" "}{pod.pod}</span></button></>}</td>
              </tr>
            )))}
          </Table>
          {workloads.flatMap((workload) => workload.rollouts.map(({ revision, version, started, ended }) => (
            <p key={workload.workload + revision} class="quiet">{strings.rollout(<bdi>{workload.workload}</bdi>, revision, <bdi>{version}</bdi>, formatClock(started), ended === null ? null : formatClock(ended))}</p>
          )))}
        </Dropdown>
      )}
    </>
  );
}
