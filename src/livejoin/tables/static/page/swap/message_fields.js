/** The fields of a control message that the form has: one topic per source, and the join. */
export const TOPIC_FIELDS = [
    { name: "usersTopic", label: "Users topic" },
    { name: "accountsTopic", label: "Accounts topic" },
];
/** What each join shows; the first one is that of a blank field. */
export const JOINS = {
    "": "The current join.",
    left: "Every user once, with the newest account.",
    inner: "Every pair of a user and an account; users without an account are left out.",
    left_outer: "Every pair, and each user without an account once.",
};
