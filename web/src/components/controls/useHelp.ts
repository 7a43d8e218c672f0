import { useAnswer, type AnswerRequest } from "../../api/useAnswer.ts";
import url from "../../strings/help.json?url";

/** Help texts. Few visits need them, so they are loaded on demand. */
export interface HelpTexts {
  /** Keys, and what each does. */
  readonly keys: readonly (readonly [string, string])[];
  /** How to read the numbers. */
  readonly numbers: readonly (readonly [string, string])[];
  /** Where to read on: below the prefix, its name, and what to say of it. */
  readonly more: readonly (readonly [string, string, string])[];
  /** Explanations that open on demand. */
  readonly aside: Readonly<Record<"address" | "truncated" | "version", string>>;
  /** How to profile a first service, by where it runs; `{collector}` stands for the collector's address. */
  readonly begin: Readonly<Record<string, { readonly text: string; readonly words: string }>>;
  readonly send: string;
}

export const useHelp = (): AnswerRequest<HelpTexts> => useAnswer<HelpTexts>(url);
