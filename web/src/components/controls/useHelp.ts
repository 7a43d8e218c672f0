import { useAnswer, type Asked } from "../../api/useAnswer.ts";
import url from "./help.json?url";

/** Texts that few visits need, in a file of their own: it is loaded where they are shown. */
export interface Words {
  /** Keys, and what each does. */
  readonly keys: readonly (readonly [string, string])[];
  /** How to read the numbers. */
  readonly numbers: readonly (readonly [string, string])[];
  /** Where to read on: below the prefix, its name, and what to say of it. */
  readonly more: readonly (readonly [string, string, string])[];
  /** What is told where one asks for it. */
  readonly aside: Readonly<Record<"address" | "truncated" | "version", string>>;
  /** How to profile a first service, by where it runs; `{collector}` stands for the collector's address. */
  readonly begin: Readonly<Record<string, { readonly text: string; readonly words: string }>>;
  readonly send: string;
}

export const useWords = (): Asked<Words> => useAnswer<Words>(url);
