/** Number formats of decimals in a grid: the engine reads a decimal as a float. Pure. */

import { isDecimal, readArrowStream } from "../../protocol/arrow.js";
import type { Field } from "../../protocol/arrow.js";
import type { Config } from "./perspective.js";

type ColumnsConfig = NonNullable<Config["columns_config"]>;
export type NumberFormats = Record<string, { number_format: Record<string, number> }>;

/** Decimals of a snapshot are written with all their places. */
export function numberFormats(payload: ArrayBuffer): NumberFormats {
  const decimals = fieldsOf(payload).flatMap(({ name, type }) =>
    isDecimal(type) ? [[name, placesOf(type)] as const] : [],
  );
  return Object.fromEntries(
    decimals.map(([name, places]) => [
      name,
      { number_format: { minimumFractionDigits: places, maximumFractionDigits: places } },
    ]),
  );
}

function fieldsOf(payload: ArrayBuffer): Field[] {
  try {
    return readArrowStream(payload).fields;
  } catch {
    return []; // the engine reads more than livejoin sends, and reports what it cannot read
  }
}

const placesOf = (type: string): number => Number(type.slice(type.indexOf(",") + 1, -1));

/** What the user has chosen, without these formats. */
export function withoutFormats(columns: ColumnsConfig, formats: NumberFormats): ColumnsConfig {
  return Object.fromEntries(
    Object.entries(columns).map(([name, settings]) => {
      const { number_format: format, ...rest } = settings;
      return [name, sameEntries(format, formats[name]?.number_format) ? rest : settings];
    }),
  );
}

function sameEntries(found: unknown, given: Record<string, number> | undefined): boolean {
  const sorted = (record: object) => JSON.stringify(Object.entries(record).sort());
  return given !== undefined && sorted(Object(found)) === sorted(given);
}
