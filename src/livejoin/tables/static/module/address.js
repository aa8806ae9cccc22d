/** livejoin's address. */
/** Where this module was loaded from, also below a proxy's folder: two folders above /static/module/address.js. */
export const MODULE_HOME = new URL("../..", import.meta.url).href;
