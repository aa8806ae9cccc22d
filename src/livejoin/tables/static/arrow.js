/** The published address of the Arrow reader, `/static/arrow.js`. See docs/web-module.md. */
export { readArrow } from "./protocol/arrow.js";
