/** Perspective's own module, served from the installed wheel. */
declare module "*/perspective-anywidget.js" {
  export const ready: Promise<unknown>;
  export function worker(): Promise<import("./perspective.js").Engine>;
}
