import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { FunctionsAnswer } from "../api/answers.ts";
import { change, place } from "../lib/location.ts";
import { percent, short } from "../lib/numbers.ts";
import { evenColumn, orZero, shareOrZero } from "../lib/quantities.ts";
import { joinMatchers } from "../lib/selectors.ts";
import { onPage, pageRange } from "../lib/url.ts";
import { isThreadTime } from "../lib/viewOptions.ts";
import { dataQualityNotices } from "../viewmodels/dataQualityNotices.ts";
import { dottedName, fleetShare, monthlyAmount, monthlyCost } from "../viewmodels/fleetFunctions.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";
import { BasisLine, Notices } from "../components/answer/Notices.tsx";
import { TypePicker } from "../components/controls/Filters.tsx";
import { useSharedView } from "../components/controls/sharedView.ts";
import { Link, SegmentedControl } from "../components/ui/Controls.tsx";
import { Table } from "../components/ui/Table.tsx";
import { useKeys } from "../components/ui/useKeys.ts";
import { count } from "../strings/counts.ts";
import * as strings from "../strings/fleetStrings.tsx";

const TYPING_MS = 300;

/** One search over the functions of all services. */
export function FunctionsPage({ refreshCount }: { refreshCount: number }) {
  const { q, query, type, sort } = place.value;
  const range = pageRange(place.value);
  const by = sort === "-self" ? "self" : "total";
  const apiQuery = ["functions", { query: query === "" ? "" : `{${joinMatchers(query)}}`, ...range, type, search: q.trim(), by, limit: "100" }] as const;
  const request = useAnswer<FunctionsAnswer>(apiUrl(...apiQuery));
  useSharedView(apiQuery);
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  useKeys({ "/": () => document.querySelector<HTMLInputElement>("#search")?.focus() });
  return (
    <>
      <h1 class="unseen">{strings.functionsOfServices}</h1>
      <div class="tools">
        <FunctionSearch text={q} />
        <TypePicker />
        <SegmentedControl label={strings.orderOfFunctions} value={by} onSelect={(next) => change({ sort: next === "self" ? "-self" : "" })} options={[["total", strings.total, strings.totalHint], ["self", strings.self, strings.selfHint]]} />
      </div>
      <AnswerView request={request} what={strings.functionsSubject}>{(answer) => <FunctionList answer={answer} />}</AnswerView>
    </>
  );
}

/** The search, which is asked for once typing pauses. */
function FunctionSearch({ text }: { text: string }) {
  const [typed, setTyped] = useState(text);
  useEffect(() => setTyped(text), [text]);
  useEffect(() => {
    if (typed === text) return undefined;
    const timer = setTimeout(() => change({ q: typed }, "replace"), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <label class="search">
      <span class="unseen">{strings.searchFunctions}</span>
      <input id="search" type="search" value={typed} placeholder={strings.searchFunctionsPlaceholder} spellcheck={false} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />
    </label>
  );
}

function FunctionList({ answer }: { answer: FunctionsAnswer }) {
  const { rows, type, search, core_hour_price: listedPrice } = answer;
  // A price is of cores: waiting threads cost nothing.
  const price = type === "cpu" ? listedPrice : null;
  const unit = type === "tasks" ? strings.tasks : isThreadTime(type) ? strings.threads : strings.cores;
  const perMonth = (cores: number | null) => {
    const cost = monthlyCost(cores, price);
    return cost === "" ? "" : strings.perMonth(cost);
  };
  if (rows.function.length === 0) return <div class="card zero"><h2>{strings.noFunctionMatches(<bdi>{search.slice(0, 100)}</bdi>)}</h2></div>;
  const amounts = rows.cores.map((cores) => monthlyAmount(cores, price));
  const [write, writeCost] = [orZero(evenColumn(rows.cores)), orZero(evenColumn(amounts, 1, 2))];
  const first = <bdi>{dottedName(rows.function[0], rows.file[0]).slice(0, 200)}</bdi>;
  return (
    <section class="panel" aria-label={strings.functionsOfServices}>
      <Notices notices={dataQualityNotices([], [], answer.basis)} />
      <p class="headline">{strings.fleetSentence(first, rows.cores[0] === null ? "–" : short(rows.cores[0]), unit, rows.services_total[0], percent(fleetShare(answer, 0)), perMonth(rows.cores[0]))}</p>
      <div class="tools">
        <span class="quiet" role="status">{strings.functionsSummary(answer.functions_total, answer.services_total)}</span>
        {type === "cpu" && listedPrice === null && <span class="quiet">{strings.setPrice}</span>}
        <span class="gap" />
        <BasisLine basis={answer.basis} />
      </div>
      <Table label={strings.tableOfFunctions} className="cards" heads={[strings.functionHead, isThreadTime(type) ? strings.threadsHead : strings.coresHead, strings.shareHead, ...(price === null ? [] : [strings.costHead]), strings.servicesHead]}>
        {rows.function.map((name, at) => (
          <tr key={`${name} ${rows.file[at]}`}>
            <th scope="row" class="function"><bdi title={`${name} (${rows.file[at]})`}>{name.slice(0, 200)}</bdi> <span class="quiet"><bdi>{rows.file[at].slice(-100)}</bdi></span></th>
            <td class="number">{write(rows.cores[at])}</td>
            <td class="number">{shareOrZero(fleetShare(answer, at))}</td>
            {price !== null && <td class="number">{writeCost(amounts[at])}</td>}
            <td class="number"><FunctionServices answer={answer} at={at} unit={unit} /></td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

/** The services of a function by cost; each leads to its profile, where the function is found. */
function FunctionServices({ answer, at, unit }: { answer: FunctionsAnswer; at: number; unit: string }) {
  const [isOpen, setOpen] = useState(false);
  const { rows } = answer;
  const { service, cores } = rows.services[at];
  const more = rows.services_total[at] - service.length;
  const name = rows.function[at];
  const range = pageRange(place.value);
  return (
    <details class="why" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{count(rows.services_total[at])}<span class="unseen">{strings.servicesOf(name.slice(0, 100))}</span> ▾</summary>
      {isOpen && (
        <ul class="services-of">
          {service.map((one, i) => (
            <li key={one}><Link to={onPage(place.value, "service", { service: one, ...range, q: name })}><bdi>{one.slice(0, 100)}</bdi></Link> <span class="quiet">{cores[i] === null ? "–" : `${short(cores[i])} ${unit}`}</span></li>
          ))}
          {more > 0 && <li class="quiet">{strings.moreServices(more)}</li>}
        </ul>
      )}
    </details>
  );
}
