/** This server process: POD_ID, and a `boot` that is random at each start, so that a restart is another pod. */
export class PodIdentity {
  constructor(
    readonly podId: string,
    readonly boot: string,
  ) {}
}
