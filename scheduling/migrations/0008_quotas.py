"""Quotas of stored jobs, kept however jobs come in.

A statement that makes jobs of a tenant with a quota locks the tenant until its transaction ends, and counts behind the
lock: so two at once cannot both be the last. Statement by statement, not row by row: a COPY of a million jobs looks
once at each tenant. Tenants are locked in the order of their ids.
"""

from django.db import migrations, models

QUOTA = """
CREATE FUNCTION fairbeat_live_jobs(owner integer, at_most bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off AS $$
    -- A job is in one of these two indexes, or deleted; neither is one that the claims of recurring jobs have to write
    -- for the sake of counting.
    BEGIN
        RETURN (SELECT count(*) FROM (
            SELECT FROM scheduling_shard s JOIN scheduling_job j ON j.shard_id = s.id
            WHERE j.tenant_id = owner AND j.next_fire_at IS NOT NULL AND j.deleted_at IS NULL
            UNION ALL
            SELECT FROM scheduling_job j
            WHERE j.tenant_id = owner AND j.next_fire_at IS NULL AND j.deleted_at IS NULL
            LIMIT at_most) AS live);
    END
$$;
CREATE FUNCTION fairbeat_keep_quota(owner integer, more bigint) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE quota bigint; named text; found_jobs bigint;
    BEGIN
        SELECT t.max_jobs, t.slug INTO quota, named FROM fairness_tenant t
        WHERE t.id = owner AND t.max_jobs IS NOT NULL FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        IF current_setting('transaction_isolation') <> 'read committed' THEN  -- what others have made meanwhile is not seen
            RAISE EXCEPTION 'tenant %: its quota of jobs can be kept under READ COMMITTED only', named
                USING ERRCODE = 'feature_not_supported';
        END IF;
        found_jobs := fairbeat_live_jobs(owner, quota + more + 1);
        IF found_jobs > quota THEN
            RAISE EXCEPTION 'tenant %: may have % (max_jobs), and has %', named,
                    quota || CASE quota WHEN 1 THEN ' job' ELSE ' jobs' END,
                    CASE WHEN found_jobs > quota + more THEN 'more' ELSE (found_jobs - more)::text END
                USING ERRCODE = 'FB002', DETAIL = json_build_object(
                    'tenant', named, 'quota', quota, 'has', greatest(found_jobs - more, 0), 'more', more)::text;
        END IF;
    END
$$;
CREATE FUNCTION fairbeat_jobs_made() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE made record;
    BEGIN
        FOR made IN
            SELECT tenant_id, count(*) AS jobs FROM new_jobs WHERE deleted_at IS NULL GROUP BY tenant_id ORDER BY tenant_id
        LOOP
            PERFORM fairbeat_keep_quota(made.tenant_id::integer, made.jobs);
        END LOOP;
        RETURN NULL;
    END
$$;
CREATE TRIGGER jobs_made AFTER INSERT ON scheduling_job REFERENCING NEW TABLE AS new_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION fairbeat_jobs_made();
CREATE FUNCTION fairbeat_job_comes_in() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM fairbeat_keep_quota(NEW.tenant_id::integer, 1);
        RETURN NULL;
    END
$$;
CREATE TRIGGER job_comes_in AFTER UPDATE OF tenant_id, deleted_at ON scheduling_job
    FOR EACH ROW WHEN (
        NEW.deleted_at IS NULL AND (OLD.deleted_at IS NOT NULL OR NEW.tenant_id IS DISTINCT FROM OLD.tenant_id))
    EXECUTE FUNCTION fairbeat_job_comes_in();
"""
NO_QUOTA = """
DROP TRIGGER jobs_made ON scheduling_job;
DROP TRIGGER job_comes_in ON scheduling_job;
DROP FUNCTION fairbeat_jobs_made();
DROP FUNCTION fairbeat_job_comes_in();
DROP FUNCTION fairbeat_keep_quota(integer, bigint);
DROP FUNCTION fairbeat_live_jobs(integer, bigint);
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0007_holds_and_slots")]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                "tenant",
                condition=models.Q(next_fire_at__isnull=True, deleted_at__isnull=True),
                name="job_planned_elsewhere",
            ),
        ),
        migrations.RunSQL(QUOTA, NO_QUOTA),
    ]
