/** A seq as callers write it: digits, so few that the number is exact. */
export const SEQ = /^\d{1,15}$/;
export const SEQ_RULE = 'must be the seq of an event, or 0';
