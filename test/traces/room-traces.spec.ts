import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Diary, FamilyStage, PlannedAgent } from './ground/family-stage.js';
import { Ground, GROUNDS } from './ground/ground.js';

/** The failing trace of the model of room and waiting, played against the real code: parents take all the room there is. */
describe.each(GROUNDS)('on the %s servers', (kind) => {
  const diary = new Diary();
  let ground: Ground;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    ground = await Ground.open(kind, (points) => new PlannedAgent(points, diary));
  });
  afterEach(() => ground.clear());
  afterAll(() => ground.close());

  it.each([
    [2, 2],
    [1, 3],
  ])('[E1] in the room of %i, %i parents that wait for their children do not keep them out', async (room, parents) => {
    const door = await ground.pod('door', { actors: false });
    const pod = await ground.pod('a', { settings: { actorMaxActive: room } });
    const families = Array.from({ length: parents }, () => new FamilyStage(ground, diary, door));
    // So many as there is room for have started before any of them has a child.
    const started = families.slice(0, room).map(({ root }) => pod.points.hold(`step ${root.sessionId} model:1`));
    for (const family of families) await family.post({ spawns: { [family.session('c').sessionId]: {} }, awaits: true });
    for (const hold of started) await hold.reached;
    await ground.quiet();
    expect(pod.supervisor.counts().active).toBe(room);
    for (const hold of started) hold.release();
    for (const family of families) await family.finish([family.root, family.session('c')], pod);
    for (const family of families) {
      expect((await family.row())?.state).toBe('completed');
      expect((await family.firstOf(family.session('c')))?.state).toBe('completed');
      await family.keepsPromises();
    }
  });
});
