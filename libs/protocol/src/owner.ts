/** One server process. `boot` is random at each start: a restart under the same POD_ID is another pod. */
export interface PodName {
  podId: string;
  boot: string;
}

/** Who holds a session's lease. Its fencing number, the epoch, grows strictly per session. */
export interface Owner extends PodName {
  epoch: number;
}

/** `<POD_ID>:<boot>`, as in channel names and tokens. */
export function podName(pod: PodName): string {
  return `${pod.podId}:${pod.boot}`;
}

/** The value of a session's lock: `<POD_ID>:<boot>/<epoch>`. */
export function ownerToken(owner: Owner): string {
  return `${podName(owner)}/${owner.epoch}`;
}

export function parseOwnerToken(token: string): Owner {
  const slash = token.lastIndexOf('/');
  const colon = token.lastIndexOf(':', slash);
  return { podId: token.slice(0, colon), boot: token.slice(colon + 1, slash), epoch: Number(token.slice(slash + 1)) };
}
