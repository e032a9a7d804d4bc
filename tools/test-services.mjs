// The servers tests run against, as TEST_REDIS_URL and TEST_DATABASE_URL.
import { startMariaDb, startRedis } from './services.mjs';

/**
 * Servers that are named in the environment are used as they are and left running; their contents are not touched:
 * tests keep to databases and key prefixes of their own. For what is not named, private servers are started.
 */
export async function withServices(say, work) {
  const started = [];
  const provide = async (start) => {
    const service = await start({ say });
    started.push(service);
    return service.url;
  };
  try {
    return await work({
      TEST_REDIS_URL: process.env.TEST_REDIS_URL || (await provide(startRedis)),
      TEST_DATABASE_URL: process.env.TEST_DATABASE_URL || (await provide(startMariaDb)),
    });
  } finally {
    await Promise.all(started.map((service) => service.stop()));
  }
}
