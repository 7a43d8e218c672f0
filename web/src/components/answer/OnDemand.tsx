import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ErrorCard } from "./ErrorCard.tsx";
import * as strings from "../../strings/answerStrings.tsx";

/** A component whose script is loaded when it is first shown. `what` names it in messages. */
export function onDemand<Props extends object>(load: () => Promise<ComponentType<Props>>, what: string): ComponentType<Props> {
  let loaded: ComponentType<Props> | null = null;
  return function OnDemand(props: Props) {
    const [state, setState] = useState<"loading" | "loaded" | "failed">(loaded ? "loaded" : "loading");
    useEffect(() => {
      if (loaded) return;
      load().then(
        (component) => {
          loaded = component;
          setState("loaded");
        },
        () => setState("failed"),
      );
    }, []);
    if (state === "failed") {
      return (
        <ErrorCard message={strings.scriptDidNotLoad(what)} hint={strings.uiMayHaveBeenUpdated}>
          <p><button type="button" class="primary" onClick={() => window.location.reload()}>{strings.reload}</button></p>
        </ErrorCard>
      );
    }
    const Component = loaded;
    return Component ? <Component {...props} /> : <p class="card waiting" role="status">{strings.loading(what, [])}</p>;
  };
}
