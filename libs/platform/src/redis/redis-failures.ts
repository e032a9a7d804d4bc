/** What the server says, as the first word of an error, when it cannot serve now; nothing was done. */
const ABSENT = /^(LOADING|READONLY|MISCONF|OOM|MASTERDOWN|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|BUSY|NOAUTH|WRONGPASS)\b/;

function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}

/** Whether the server was not reached or does not serve now, as opposed to a fault in what was asked or in our code. */
export function isAbsence(error: unknown): boolean {
  return isReply(error) ? ABSENT.test(error.message) : !isFault(error);
}

/** Whether the connection broke before the answer came, or was no primary's: worth asking again on the next one. */
export function wasCut(error: unknown): boolean {
  return isReply(error) ? error.message.startsWith('READONLY') : !isTimeout(error) && !isFault(error);
}

export function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Command timed out';
}

function isFault(error: unknown): boolean {
  return error instanceof TypeError || error instanceof ReferenceError || error instanceof RangeError;
}
