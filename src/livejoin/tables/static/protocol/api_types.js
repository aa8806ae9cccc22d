/** JSON bodies of the HTTP API, and rows of livejoin's own tables. */
export {};
