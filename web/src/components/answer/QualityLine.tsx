import { Fragment } from "preact";
import { qualityRemarks, type QualityRemark, type QualitySource } from "../../viewmodels/qualitySummary.ts";
import * as strings from "../../strings/answerStrings.tsx";

/** How well a profile was watched, in a line; opened, what each word of it means. */
export function QualityLine({ source }: { source: QualitySource }) {
  const remarks = qualityRemarks(source);
  return (
    <details class="quality">
      <summary title={strings.whatTheseWordsMean}>
        <span class="quiet">{strings.quality}</span>{" "}
        {remarks.map((remark, at) => <Fragment key={remark.text}>{at > 0 && " · "}<RemarkText remark={remark} /></Fragment>)}
      </summary>
      <dl>{remarks.map((remark) => <div key={remark.text}><dt><RemarkText remark={remark} /></dt><dd>{remark.why}</dd></div>)}</dl>
    </details>
  );
}

export function RemarkText({ remark: { text, why, isDoubtful } }: { remark: QualityRemark }) {
  return isDoubtful ? <strong class="doubt" title={why}><span aria-hidden="true">⚠ </span>{text}</strong> : <span title={why}>{text}</span>;
}
