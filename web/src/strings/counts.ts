/** Counts with their nouns, and what sentences take as a value. */

/** A value that a sentence shows as it is: formatted text, or a number. */
export type Printable = string | number;

export const count = (value: number): string => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");

export const plural = (value: number, one: string, many = `${one}s`): string => `${count(value)} ${value === 1 ? one : many}`;
