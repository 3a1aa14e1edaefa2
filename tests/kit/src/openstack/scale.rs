//! Fills a large cloud directly in the databases: by the API it takes a minute and more.

/// The size of a cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Projects `project-1` and so on, with the discoverer as member.
    pub projects: u32,
    /// Load balancers of each project, `balancer-1` and so on through all projects.
    pub balancers: u32,
    /// Pools of each load balancer, each the default of a listener of its own.
    pub pools: u32,
    /// Members of each pool.
    pub members: u32,
}

impl Default for Scale {
    /// 100 projects, 1,000 load balancers, 2,000 listeners and pools, 4,000 members.
    fn default() -> Self {
        Self { projects: 100, balancers: 10, pools: 2, members: 2 }
    }
}

impl Scale {
    /// Returns the ID of a load balancer, counted from 1.
    #[must_use]
    pub fn balancer_id(number: u32) -> String {
        id('b', number)
    }

    /// Returns the ID of a pool, counted from 1: those of load balancer 1 first.
    #[must_use]
    pub fn pool_id(number: u32) -> String {
        id('d', number)
    }

    /// Returns the ID of a member, counted from 1: those of pool 1 first.
    #[must_use]
    pub fn member_id(number: u32) -> String {
        id('e', number)
    }

    /// Returns the ID of a project, counted from 1.
    #[must_use]
    pub fn project_id(number: u32) -> String {
        id('a', number).replace('-', "")
    }

    pub(super) fn statements(self) -> String {
        let Self { projects, balancers, pools, members } = self;
        let (all_balancers, per_project, all_pools) =
            (projects * balancers, balancers.max(1), projects * balancers * pools);
        let (per_balancer, all_members, per_pool) = (pools.max(1), all_pools * members, members.max(1));
        // The number of the parent of object `seq`, with `each` objects per parent.
        let parent = |each: u32| format!("((seq - 1) div {each} + 1)");
        let key =
            |kind: char, number: &str| format!("concat('{kind}0000000-0000-4000-8000-', lpad(hex({number}), 12, '0'))");
        let project = |number: &str| format!("lower(replace({}, '-', ''))", key('a', number));
        let key = |kind: char, number: &str| format!("lower({})", key(kind, number));
        let state = "'ACTIVE' as provisioning_status, 'ONLINE' as operating_status, 1 as enabled, utc_timestamp() as created_at, utc_timestamp() as updated_at";
        let columns = "provisioning_status, operating_status, enabled, created_at, updated_at";
        let owner_of_pool = project(&format!("((seq - 1) div {} + 1)", per_balancer * per_project));
        let owner_of_member = project(&format!("((seq - 1) div {} + 1)", per_pool * per_balancer * per_project));
        [
            format!(
                "insert into keystone.project (id, name, extra, description, enabled, domain_id, parent_id, is_domain) \
                 select {}, concat('project-', seq), '{{}}', '', 1, d.id, d.id, 0 from octavia.seq_1_to_{projects} \
                 join keystone.project d on d.name = 'lab' and d.is_domain = 1",
                project("seq")
            ),
            format!(
                "insert into keystone.assignment (type, actor_id, target_id, role_id, inherited) \
                 select 'UserProject', u.user_id, {}, r.id, 0 from octavia.seq_1_to_{projects} \
                 join keystone.local_user u on u.name = 'discoverer' \
                 join keystone.role r on r.name in ('member', 'load-balancer_member')",
                project("seq")
            ),
            format!(
                "insert into octavia.load_balancer (id, project_id, name, topology, provider, {columns}) \
                 select {}, {}, concat('balancer-', seq), 'SINGLE', 'lab', {state} from octavia.seq_1_to_{all_balancers}",
                key('b', "seq"),
                project(&parent(per_project))
            ),
            format!(
                "insert into octavia.vip (load_balancer_id, ip_address, octavia_owned) \
                 select {}, concat('10.64.', seq div 250, '.', seq mod 250 + 1), 0 from octavia.seq_1_to_{all_balancers}",
                key('b', "seq")
            ),
            format!(
                "insert into octavia.pool (id, project_id, name, protocol, lb_algorithm, load_balancer_id, {columns}) \
                 select {}, {owner_of_pool}, concat('pool-', seq), 'HTTP', 'ROUND_ROBIN', {}, {state} \
                 from octavia.seq_1_to_{all_pools}",
                key('d', "seq"),
                key('b', &parent(per_balancer))
            ),
            format!(
                "insert into octavia.listener (id, project_id, name, protocol, protocol_port, connection_limit, \
                 load_balancer_id, default_pool_id, peer_port, timeout_client_data, timeout_member_connect, \
                 timeout_member_data, timeout_tcp_inspect, {columns}) \
                 select {}, {owner_of_pool}, concat('listener-', seq), 'HTTP', 80 + (seq - 1) mod {per_balancer}, -1, \
                 {}, {}, 1025, 50000, 5000, 50000, 0, {state} from octavia.seq_1_to_{all_pools}",
                key('c', "seq"),
                key('b', &parent(per_balancer)),
                key('d', "seq")
            ),
            format!(
                "insert into octavia.member (id, project_id, name, pool_id, ip_address, protocol_port, weight, backup, {columns}) \
                 select {}, {owner_of_member}, concat('member-', seq), {}, \
                 concat('10.', 65 + seq div 62500, '.', seq div 250 mod 250, '.', seq mod 250 + 1), 8080, 1, 0, {} \
                 from octavia.seq_1_to_{all_members}",
                key('e', "seq"),
                key('d', &parent(per_pool)),
                state.replace("ONLINE", "NO_MONITOR")
            ),
        ]
        .join(";\n")
    }
}

fn id(kind: char, number: u32) -> String {
    format!("{kind}0000000-0000-4000-8000-{number:012x}")
}
