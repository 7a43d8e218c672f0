import type { ComponentChildren } from "preact";
import { qualityRemarks, type QualitySource } from "../../viewmodels/qualitySummary.ts";
import { Dropdown } from "../ui/Dropdown.tsx";
import * as strings from "../../strings/answerStrings.tsx";
import { Notices } from "./Notices.tsx";
import { RemarkText } from "./QualityLine.tsx";

/** One chip that says whether the data is good; opened, every notice and how the profile was sampled. */
export function DataQuality({ source, notices, children }: { source: QualitySource; notices: readonly string[]; children?: ComponentChildren }) {
  const remarks = qualityRemarks(source);
  const warnings = notices.length + remarks.filter(({ isDoubtful }) => isDoubtful).length;
  return (
    <Dropdown isText class="quality" text={<span class={warnings > 0 ? "doubt" : ""}>{warnings > 0 ? strings.dataWarnings(warnings) : strings.dataGood}</span>} title={strings.whatTheseWordsMean}>
      <Notices notices={notices} />
      {children}
      <dl>{remarks.map((remark) => <div key={remark.text}><dt><RemarkText remark={remark} /></dt><dd>{remark.why}</dd></div>)}</dl>
    </Dropdown>
  );
}
