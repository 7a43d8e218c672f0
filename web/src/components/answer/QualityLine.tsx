import { Fragment } from "preact";
import { remarks, type Remark, type Watched } from "../../viewmodels/qualitySummary.ts";

/** How well a profile was watched, in a line; opened, what each word of it means. */
export function QualityLine({ of }: { of: Watched }) {
  const said = remarks(of);
  return (
    <details class="quality">
      <summary title="What these words mean">
        <span class="quiet">Quality:</span>{" "}
        {said.map((remark, at) => <Fragment key={remark.text}>{at > 0 && " · "}<Words remark={remark} /></Fragment>)}
      </summary>
      <dl>{said.map((remark) => <div key={remark.text}><dt><Words remark={remark} /></dt><dd>{remark.why}</dd></div>)}</dl>
    </details>
  );
}

export function Words({ remark: { text, why, doubt } }: { remark: Remark }) {
  return doubt ? <strong class="doubt" title={why}><span aria-hidden="true">⚠ </span>{text}</strong> : <span title={why}>{text}</span>;
}
