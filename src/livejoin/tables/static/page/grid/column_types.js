/** Number formats of decimals in a grid: the engine reads a decimal as a float. Pure. */
import { isDecimal, readArrowStream } from "../../protocol/arrow.js";
/** Decimals of a snapshot are written with all their places. */
export function numberFormats(payload) {
    const decimals = fieldsOf(payload).flatMap(({ name, type }) => isDecimal(type) ? [[name, placesOf(type)]] : []);
    return Object.fromEntries(decimals.map(([name, places]) => [
        name,
        { number_format: { minimumFractionDigits: places, maximumFractionDigits: places } },
    ]));
}
function fieldsOf(payload) {
    try {
        return readArrowStream(payload).fields;
    }
    catch {
        return []; // the engine reads more than livejoin sends, and reports what it cannot read
    }
}
const placesOf = (type) => Number(type.slice(type.indexOf(",") + 1, -1));
/** What the user has chosen, without these formats. */
export function withoutFormats(columns, formats) {
    return Object.fromEntries(Object.entries(columns).map(([name, settings]) => {
        const { number_format: format, ...rest } = settings;
        return [name, sameEntries(format, formats[name]?.number_format) ? rest : settings];
    }));
}
function sameEntries(found, given) {
    const sorted = (record) => JSON.stringify(Object.entries(record).sort());
    return given !== undefined && sorted(Object(found)) === sorted(given);
}
