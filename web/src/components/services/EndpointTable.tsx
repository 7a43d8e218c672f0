import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { EndpointsAnswer } from "../../api/answers.ts";
import { change, place } from "../../lib/location.ts";
import { evenColumn, orZero, shareOrZero } from "../../lib/quantities.ts";
import { equals, joinMatchers, selectorOf, withoutLabel } from "../../lib/selectors.ts";
import { pageRange } from "../../lib/url.ts";
import { isThreadTime } from "../../lib/viewOptions.ts";
import { AnswerView } from "../answer/AnswerView.tsx";
import { SourceLink } from "../controls/SourceLink.tsx";
import { BarCell, Link, Toggle } from "../ui/Controls.tsx";
import { Table } from "../ui/Table.tsx";
import * as strings from "../../strings/fleetStrings.tsx";

/** Rows that stand for no endpoint of their own, as the collector names them. */
const OTHER = "(other)";
const NO_ENDPOINT = strings.noEndpointRow;

/** CPU by endpoint of a service; a press on one filters by it. */
export function EndpointTable() {
  const here = place.value;
  const query = withoutLabel(here.query, "endpoint");
  const request = useAnswer<EndpointsAnswer>(apiUrl("endpoints", { query: selectorOf(here.service, query), ...pageRange(here), type: here.type, limit: "50" }));
  return (
    <>
      <Toggle isOn={here.endpoints} onToggle={() => change({ endpoints: !here.endpoints, focus: "" })}>{strings.groupByEndpoint}</Toggle>
      <AnswerView request={request} what={strings.endpointsSubject}>{(answer) => <EndpointRows answer={answer} query={query} />}</AnswerView>
    </>
  );
}

export function EndpointRows({ answer, query }: { answer: EndpointsAnswer; query: string }) {
  const { endpoint, framework, cores, share, type } = answer;
  if (!endpoint.some((name) => name !== NO_ENDPOINT)) return <p>{strings.noEndpoints}</p>;
  const names: Readonly<Record<string, string>> = { [OTHER]: strings.restOfEndpoints, [NO_ENDPOINT]: strings.withoutEndpoint };
  const unit = isThreadTime(type) ? strings.threadsHead : strings.coresHead;
  const largest = Math.max(...share, 1e-9);
  const write = orZero(evenColumn(cores));
  return (
    <Table label={strings.tableOfEndpoints} className="short cards" heads={[strings.endpointHead, unit, strings.shareOfService, strings.frameworkHead]}>
      {endpoint.map((name, at) => (
        <tr key={name}>
          <th scope="row">{name in names ? <span class="quiet">{names[name]}</span> : <Link to={{ ...place.value, focus: "", query: joinMatchers(query, equals("endpoint", name)) }}><bdi>{name.slice(0, 200)}</bdi></Link>}{" "}<SourceLink frame={name} /></th>
          <td class="number">{write(cores[at])}</td>
          <BarCell part={share[at] / largest} head={strings.shareOfService.slice(1)}>{shareOrZero(share[at])}</BarCell>
          <td><bdi>{framework[at]}</bdi></td>
        </tr>
      ))}
    </Table>
  );
}
